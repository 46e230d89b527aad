"""What a revision corrects (pure): entries as they were sent, as they are, and why they differ."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from meterline.delivery import digest_of
from meterline.number import from_text
from meterline.report import (
    NOTHING,
    Baseline,
    Cause,
    Correction,
    Groups,
    Report,
    Revisions,
    Run,
    SubjectUsage,
    Trigger,
)
from meterline.usage import UsageRow

Entries = Mapping[Groups, int]


class _SentEntry(msgspec.Struct):
    valueText: str  # noqa: N815 - the contract's word
    groupBy: dict[str, str]  # noqa: N815


class _SentBody(msgspec.Struct):
    usage: list[_SentEntry]


_sent_bodies = msgspec.json.Decoder(_SentBody)


@dataclass(frozen=True, slots=True)
class Sent:
    """The newest delivery to a subject about a window, and its bytes."""

    delivery_id: str
    body: bytes

    def entries(self) -> dict[Groups, int]:
        """What it said."""
        usage = _sent_bodies.decode(self.body).usage
        return {_groups(entry.groupBy): from_text(entry.valueText) for entry in usage}


def entries_of(rows: Sequence[UsageRow]) -> dict[Groups, int]:
    """What rows of one subject say."""
    return {_groups(dict(row.groups)): row.value for row in rows}


def _groups(values: Mapping[str, str]) -> Groups:
    return tuple(sorted(values.items()))


def changed_meanwhile(baseline: Baseline, report: Report, meter_revision: int) -> Cause | None:
    """What else than usage makes a revision differ from the run before it, if anything."""
    if meter_revision != baseline.meter_revision:
        return Cause.METER_CHANGED
    was_grouped = report.group_by if baseline.group_by is None else baseline.group_by
    was_filtered = report.filter if baseline.filter is None else baseline.filter
    if (report.group_by, report.filter) != (was_grouped, was_filtered):
        return Cause.REPORT_CHANGED
    return None


def corrections_of(
    subject: str,
    sent: Sent | None,
    now: Entries,
    kept_out: Container[Groups],
    changed: Cause | None,
) -> Iterator[Correction]:
    """Every entry of a subject that differs, by its groups. `kept_out` are those that have usage
    and do not pass the filter; `changed` is the cause where more than usage changed.
    """
    before: Entries = {} if sent is None else sent.entries()
    digest = None if sent is None else digest_of(sent.body)
    for groups in sorted({*before, *now}):
        old, new = before.get(groups), now.get(groups)
        if old == new:
            continue
        if sent is None:
            cause = Cause.FIRST_SEEN
        elif new is not None:
            cause = Cause.LATE_USAGE
        else:
            cause = Cause.FILTER if groups in kept_out else Cause.GONE
        replaces = None if sent is None else sent.delivery_id
        yield Correction(subject, groups, old, new, changed or cause, replaces, digest)


def total_correction(
    subject_usage: SubjectUsage, sent: Sent | None, changed: Cause | None
) -> Iterator[Correction]:
    """What a subject says that has too many entries to be listed: its sum, under no groups."""
    old = None if sent is None else sum(sent.entries().values())
    if old == subject_usage.total:
        return
    cause = Cause.FIRST_SEEN if sent is None else Cause.LATE_USAGE
    replaces = None if sent is None else sent.delivery_id
    digest = None if sent is None else digest_of(sent.body)
    yield Correction(
        subject_usage.subject, (), old, subject_usage.total, changed or cause, replaces, digest
    )


def is_sent(run: Run, report: Report) -> bool:
    """Whether a run's figures go to the receiver: what was asked for by hand always does."""
    return run.trigger is not Trigger.LATE or report.revisions is Revisions.SEND


def says_nothing_new(
    baseline: Baseline, corrections_digest: str, *, speaks: bool, sends: bool
) -> bool:
    """Whether a revision would leave everything as it is: it sends nothing (`speaks`: it would have
    something to send), and what is owed to the receiver is what the run before it recorded.
    """
    if speaks and sends:
        return False
    return corrections_digest == (baseline.corrections_digest or NOTHING)
