"""What is shown of a run: a line for each minute and for each process, charts, and a verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from tests.soak import judging
from tests.soak.judging import ENOUGH_S, MEGABYTE, Judged, by_minute
from tests.soak.plot import Chart
from tests.soak.sampling import (
    COUNTED,
    CPU_S,
    DISK,
    FRESHNESS,
    HANDLES,
    LAG,
    LAG_S,
    RESIDENT,
    SENT,
    STORE_FILES,
    THREADS,
    WHOLE,
    Series,
)

LINES_MAX: Final = 30  # of the table of minutes


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether all claims about a run hold, and a sentence that says so."""

    holds: bool
    words: str


def verdict(name: str, found: Sequence[Judged], minutes: float) -> Verdict:
    """Of a run that came to its end."""
    failed = [it for it in found if not it.holds]
    short = minutes * 60 < ENOUGH_S
    least = f"a run of {minutes:g} minutes is too short to tell: it takes {ENOUGH_S / 60:g}"
    if failed:
        listed = "; ".join(f"not so: {it.claim} ({it.figures})" for it in failed)
        more = f" ({least})" if short else ""
        words = f"{name}: DOES NOT HOLD: {len(failed)} of {len(found)} claims: {listed}{more}"
        return Verdict(holds=False, words=words)
    if short:
        return Verdict(holds=True, words=f"{name}: nothing was found, but {least}")
    words = f"{name}: HOLDS: memory, file handles and lag are flat, and nothing is lost"
    return Verdict(holds=True, words=words)


def broke_off(name: str, why: str) -> Verdict:
    """Of a run that did not come to its end."""
    return Verdict(holds=False, words=f"{name}: BROKE OFF: {why}")


def claims(found: Sequence[Judged]) -> Iterator[str]:
    """A line of each."""
    for it in found:
        mark = "holds" if it.holds else "DOES NOT HOLD"
        yield f"{mark}: {it.claim}: {it.figures}"


def minutes_table(name: str, series: Series) -> Table:
    """Resident memory of each process by minute, beside handles of all, lag and rate."""
    resident = {process: by_minute(of) for process, of in series.all(RESIDENT).items()}
    handles = [by_minute(of) for of in series.all(HANDLES).values()]
    lag, counted = (by_minute(series.of.get((what, WHOLE), [])) for what in (LAG_S, COUNTED))
    table = Table(title=f"{name}: medians of each minute")
    for head in ("minute", *(f"{process} MB" for process in resident), "handles", "lag s", "rate"):
        table.add_column(head, justify="right")
    minutes = max((len(of) for of in resident.values()), default=0)
    step = -(-minutes // LINES_MAX) or 1
    for minute in range(0, minutes, step):
        table.add_row(
            f"{minute}",
            *(f"{_at(of, minute) / MEGABYTE:,.0f}" for of in resident.values()),
            f"{sum(_at(of, minute) for of in handles):,.0f}",
            f"{_at(lag, minute):.1f}",
            f"{(_at(counted, minute) - _at(counted, minute - step)) / step / 60:,.0f}",
        )
    return table


def _at(values: Sequence[float], minute: int) -> float:
    return values[minute] if 0 <= minute < len(values) else 0.0


def processes_table(name: str, series: Series, from_s: float) -> Table:
    """Each process when it was warm, and in the end."""
    table = Table(title=f"{name}: tops of every process, from {from_s / 60:g} minutes on")
    table.add_column("process")
    for head in ("MB", "then", "MB a million events", "handles", "then", "CPU", "disk MB"):
        table.add_column(head, justify="right")
    slopes = judging.slopes(series.all(RESIDENT), series.of.get((COUNTED, WHOLE), []), from_s)
    for process, points in series.all(RESIDENT).items():
        memory, handles = (
            judging.grown(of, from_s) for of in (points, series.of[HANDLES, process])
        )
        if memory is None or handles is None:
            continue
        share = series.last(CPU_S, process) / points[-1][0]
        table.add_row(
            process,
            f"{memory.before / MEGABYTE:,.0f}",
            f"{memory.after / MEGABYTE:,.0f}",
            f"{slopes.get(process, 0.0) / MEGABYTE:+.2f}",
            f"{handles.before:,.0f}",
            f"{handles.after:,.0f}",
            f"{share:.2f}",
            f"{series.last(DISK, process) / MEGABYTE:,.0f}",
        )
    return table


def charts(series: Series) -> list[Chart]:
    """All that was sampled, over time."""
    lag = {what: series.of.get((what, WHOLE), []) for what in (LAG_S, FRESHNESS)}
    events = {what: series.of.get((what, WHOLE), []) for what in (SENT, COUNTED)}
    return [
        Chart("resident memory, MB", series.all(RESIDENT), MEGABYTE),
        Chart("file handles, but for files of seen stores", series.all(HANDLES)),
        Chart("files of seen stores", series.all(STORE_FILES)),
        Chart("threads", series.all(THREADS)),
        Chart("lag and freshness, seconds", lag),
        Chart("records of the log that are not counted", series.all(LAG)),
        Chart("disk of a process, MB", series.all(DISK), MEGABYTE),
        Chart("events, millions", events, 1e6),
    ]
