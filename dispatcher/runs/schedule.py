"""Which runs are due, and how long a run waits for late events after its window (the grace).

Windows follow each other from `startAt`, without gap and without overlap.
"""

from typing import Final

from meterline.report import NOT_ASKED_FOR, Plan, Report, Run, RunState, StartTerms, Trigger, run_id

TOO_OLD: Final = "too many windows were missed: the oldest are skipped; request this run by hand"


def due_runs(plan: Plan, now_ms: int, catch_up_max: int, runs_max: int) -> list[Run]:
    """Runs for the windows from where the plan stands that have ended, in order, at most
    `runs_max`.

    After an outage the newest `catch_up_max` of the missed windows are scheduled; the older
    ones are recorded as skipped, so that nothing is left out in silence. Asking again after the
    plan has moved to the end of the last one gives the rest. Where another schedule takes over,
    its windows follow.
    """
    report = plan.report
    ended = report.ended_windows(plan.planned_until_ms, now_ms)
    runs = []
    to_ms = plan.planned_until_ms
    for place in range(min(ended, runs_max)):
        from_ms, to_ms = to_ms, report.window_end_ms(to_ms)
        passed_over = report.skip_until_ms is not None and to_ms <= report.skip_until_ms
        skipped = passed_over or ended - place > catch_up_max
        runs.append(
            Run(
                id=run_id(report.id, from_ms, to_ms, 1),
                report_id=report.id,
                namespace=report.namespace,
                from_ms=from_ms,
                to_ms=to_ms,
                revision=1,
                trigger=Trigger.SCHEDULE,
                asked_at_ms=now_ms,
                state=RunState.SKIPPED if skipped else RunState.SCHEDULED,
                reason=(NOT_ASKED_FOR if passed_over else TOO_OLD) if skipped else "",
                ended_at_ms=now_ms if skipped else None,
            )
        )
    return runs


def complete_needed_ms(run: Run, report: Report, terms: StartTerms) -> int:
    """The instant up to which everything must count before a run may be made
    (docs/architecture.md, "The dispatcher").

    Also a run for a window long past waits for what had been sent when it was asked for. Runs by
    schedule have their places among those that are due at once; what a person asks for does not
    wait for that.
    """
    if run.trigger is Trigger.SCHEDULE:
        start_ms = terms.starts_at_ms(report, run.from_ms, run.to_ms)
    else:
        start_ms = run.to_ms + terms.grace_of_ms(report)
    return max(start_ms, run.asked_at_ms)
