"""One question about usage, however it was spelled: judged against its meter, then answered."""

import asyncio
from dataclasses import dataclass
from typing import Final

from control.kept import complete_from, cut_faults
from control.stores import Stores
from meterline.meter import Meter, answering, dimensions_ever
from meterline.problem import Fault, invalid
from meterline.usage import Filter, UsageQuery
from meterline.window import WindowSize, rfc3339, zone_named

SUBJECT: Final = "subject"
COMPLETE_UNTIL_HEADER: Final = "Meterline-Complete-Until"
COMPLETE_FROM_HEADER: Final = "Meterline-Complete-From"
COMPLETE_FROM_DESCRIPTION: Final = (
    "Usage before then may lack events that were not kept any more when the meter was made; absent:"
    " it lacks none."
)


@dataclass(frozen=True, slots=True)
class MemberNames:
    """How an API version spells the fields of a question, for its faults."""

    group_by: str
    filters: str
    source: str  # body or query


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, not yet judged against a meter."""

    names: MemberNames
    from_ms: int | None = None
    to_ms: int | None = None
    window: WindowSize | None = None
    zone: str = "UTC"
    group_by: tuple[str, ...] = ()
    filters: tuple[tuple[str, Filter], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and the instant up to which no accepted event is missing in its answer (None: not
    known). Before `complete_from_ms` events may be missing for good (None: none are).
    """

    query: UsageQuery
    complete_until_ms: int | None
    complete_from_ms: int | None = None

    @property
    def sealed(self) -> bool:
        """Whether all that was received by the end of the query is in its answer."""
        to_ms, until_ms = self.query.to_ms, self.complete_until_ms
        return to_ms is not None and until_ms is not None and to_ms <= until_ms

    @property
    def headers(self) -> dict[str, str]:
        """Completeness, where the form of the answer has no place for it."""
        both = (
            (COMPLETE_UNTIL_HEADER, self.complete_until_ms),
            (COMPLETE_FROM_HEADER, self.complete_from_ms),
        )
        return {name: rfc3339(at_ms) for name, at_ms in both if at_ms is not None}


def query_of(meter: Meter, question: Question) -> UsageQuery:
    """The query. Raises `Problem` with every fault.

    A filter on the subject also groups by it (OpenMeter's v3).
    """
    names = question.names
    faults = []
    from_ms, to_ms = question.from_ms, question.to_ms
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        reason = f"{rfc3339(from_ms)} must be before to, {rfc3339(to_ms)}"
        faults.append(Fault("from", reason, "maximum", names.source))
    known = (SUBJECT, *dimensions_ever(meter))
    listed = ", ".join(known)
    reason = f"is not a dimension of meter {meter.key}; it has {listed}"
    faults += [
        Fault(names.group_by, f"{name!r} {reason}", "enum", names.source)
        for name in question.group_by
        if name not in known
    ]
    faults += [
        Fault(f"{names.filters}.{name}", reason, "enum", names.source)
        for name, _ in question.filters
        if name not in known
    ]
    if faults:
        raise invalid(*faults)
    group_by = question.group_by
    if any(name == SUBJECT for name, _ in question.filters):
        group_by = (*group_by, SUBJECT)
    return UsageQuery(
        meter=meter,
        from_ms=from_ms,
        to_ms=to_ms,
        window=question.window,
        zone=zone_named(question.zone),
        group_by=tuple(dict.fromkeys(group_by)),
        filters=question.filters,
    )


async def asked(stores: Stores, query: UsageQuery, source: str = "body") -> Asked:
    """What is known before the store is asked for rows: the claim of completeness is read first,
    for what it speaks of was in before the rows are read. Raises `Problem` where the events of a
    cut minute are not kept any more.
    """
    notices, until_ms = await asyncio.gather(
        stores.retention.notices(), complete_until(stores, query)
    )
    if faults := cut_faults(notices, query, source):
        raise invalid(*faults)
    from_ms = complete_from(notices, query.meter, query.from_ms, query.to_ms)
    return Asked(query, until_ms, from_ms)


async def complete_until(stores: Stores, query: UsageQuery) -> int | None:
    """The instant up to which nothing is missing in the least complete of the revisions that
    answer; None where that is not known.
    """
    log = stores.log
    found: list[int] = []
    for revision in sorted(answering(query.meter, query.from_ms, query.to_ms)):
        until_ms = await stores.progress.complete_until(log.number, log.partitions, revision)
        if until_ms is None:
            return None
        found.append(until_ms)
    return min(found, default=None)
