"""How a meter changes: another definition is a revision beside the one in force, which answers
until the other is switched to. Functions over a connection of one transaction that has the turn.
"""

from dataclasses import dataclass, replace

from sqlalchemy import update

from meterline.access import COMMAND, Action, Change, Kind, members_text
from meterline.backends.control_store.access.change_members import of_meter
from meterline.backends.control_store.access.changes import record_change
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.meters import revision_rows as revisions
from meterline.backends.control_store.meters import rows
from meterline.backends.control_store.meters.kept_events import from_counted
from meterline.backends.control_store.meters.rate import mind_rate
from meterline.backends.control_store.tables.meters import meters
from meterline.limits import METER_PROPOSALS_MAX, METER_TIMELINE_MAX
from meterline.meter import (
    PENDING,
    Meter,
    MeterChange,
    MeterDraft,
    MeterRevision,
    RevisionMove,
    RevisionState,
    changed,
    differences,
    faults_of,
    instant_fault,
    measures_alike,
    switched,
    timeline,
)
from meterline.problem import Fault, conflict, invalid, not_found
from meterline.window import rfc3339


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for a change, and when."""

    author: str
    now_ms: int


async def found(connection: Connection, namespace: str, id_or_key: str) -> Meter:
    """A live meter. Raises `Problem`: not found, or conflict where only the settings file may
    change it.
    """
    there = await rows.found(connection, namespace, id_or_key)
    if there is None:
        raise not_found("meter", id_or_key)
    if there.from_settings:
        raise conflict(
            f"Meter {there.key!r} is defined in the settings file and can be changed only there, "
            "not by the API."
        )
    return there


async def in_turn(connection: Connection, namespace: str, id_or_key: str) -> Meter:
    """A live meter that nobody else changes until the transaction ends. Raises as `found`."""
    await rows.take_turn(connection)
    return await found(connection, namespace, id_or_key)


async def revise(
    connection: Connection,
    there: Meter,
    draft: MeterDraft,
    asked: Asked,
    *,
    effective_from_ms: int | None = None,
    from_settings: bool = False,
) -> Meter:
    """Give a meter this definition: its words at once, what is measured once that is filled in.

    What waits already is kept where it measures the same, else replaced. The meter in force.
    """
    waiting = await revisions.waiting(connection, there)
    latest = there if waiting is None else waiting.meter
    summary = list(differences(latest, draft))
    if from_settings and not there.from_settings:
        summary.append("taken over by the settings file")
    measured = not measures_alike(differences(there, draft))
    if effective_from_ms is not None and not measured:
        reason = "nothing that is measured changes; leave it out"
        raise invalid(Fault("effective_from", reason, "disagreement"))
    if waiting is not None and measures_alike(differences(waiting.meter, draft)):
        summary += await _dated(connection, there, waiting, effective_from_ms)
    elif waiting is not None or measured:
        summary += await _replaced(connection, waiting, asked)
        if measured:
            from_ms = effective_from_ms
            if from_ms is None and waiting is not None:
                from_ms = waiting.effective_from_ms
            summary += await _made(connection, there, draft, asked, from_ms, from_settings)
        else:
            await rows.next_version(connection)
    if not summary:
        return there
    columns = {
        "name": draft.name,
        "description": draft.description,
        "labels": rows.pairs_text(draft.labels),
        "from_settings": from_settings,
        "updated_at_ms": asked.now_ms,
    }
    await connection.execute(update(meters).where(meters.c.id == there.id).values(columns))
    after = await rows.found(connection, there.namespace, there.id)
    assert after is not None, "it was just written"
    members = members_text(of_meter(latest), of_meter(draft))
    await record(connection, after, Action.UPDATE, asked, ", ".join(summary), members)
    return after


async def _dated(
    connection: Connection, there: Meter, waiting: MeterRevision, from_ms: int | None
) -> list[str]:
    """Give what waits another first instant, where one is named."""
    if from_ms in (None, waiting.effective_from_ms):
        return []
    events_from_ms = waiting.meter.events_from_ms
    from_ms = await from_counted(connection, waiting.number, events_from_ms, from_ms)
    _check_instant(there, waiting.meter, from_ms)
    await revisions.move(
        connection, [waiting.number], RevisionMove.REQUEST, effective_from_ms=from_ms
    )
    return [_named(waiting.number, from_ms)]


async def _replaced(
    connection: Connection, waiting: MeterRevision | None, asked: Asked
) -> list[str]:
    """Discard what waits, if anything does: what comes after it stands in its place. Whoever calls
    makes a version.
    """
    if waiting is None:
        return []
    await _discard(connection, waiting, asked)
    return [f"in place of revision {waiting.number}"]


async def _made(
    connection: Connection,
    there: Meter,
    draft: MeterDraft,
    asked: Asked,
    from_ms: int | None,
    from_settings: bool,  # noqa: FBT001
) -> list[str]:
    """Make the revision that is switched by itself."""
    if not from_settings:  # the file says what shall be; its reports fail with words
        await mind_rate(connection, there.namespace, asked.now_ms)
        await keep_reports(connection, there, draft)
    version = await rows.next_version(connection)
    from_ms = await from_counted(connection, version, draft.events_from_ms, from_ms)
    _check_instant(there, replace(there, revision=0), from_ms)
    await rows.put_revision(
        connection,
        version,
        there.id,
        draft,
        asked.now_ms,
        state=RevisionState.FILLING,
        effective_from_ms=from_ms,
    )
    return [_named(version, from_ms)]


async def propose(
    connection: Connection,
    namespace: str,
    id_or_key: str,
    change: MeterChange,
    now_ms: int,
    *,
    author: str = COMMAND,
) -> MeterRevision:
    """Make a revision that is filled in and waits to be compared. Raises `Problem`."""
    there = await in_turn(connection, namespace, id_or_key)
    draft = judged(there, change)
    differing = differences(there, draft)
    if measures_alike(differing):
        reason = "measures what the meter measures; change event_type, value_property or dimensions"
        raise invalid(Fault("body", reason, "disagreement"))
    if await revisions.count_pending(connection, there) >= METER_PROPOSALS_MAX:
        raise conflict(
            f"Meter {there.key!r} has {METER_PROPOSALS_MAX} pending revisions, and can have "
            "no more; delete one first."
        )
    await mind_rate(connection, there.namespace, now_ms)
    version = await rows.next_version(connection)
    await rows.put_revision(
        connection, version, there.id, draft, now_ms, state=RevisionState.PROPOSED
    )
    summary = ", ".join([*differing, f"revision {version}"])
    members = members_text(of_meter(there), of_meter(draft))
    await record(connection, there, Action.PROPOSE, Asked(author, now_ms), summary, members)
    return await revision_of(connection, there, version)


async def request_switch(
    connection: Connection,
    namespace: str,
    id_or_key: str,
    number: int,
    effective_from_ms: int | None,
    now_ms: int,
    *,
    author: str = COMMAND,
) -> MeterRevision:
    """Have a revision switched once it is filled in. Raises `Problem`."""
    there, asked = await in_turn(connection, namespace, id_or_key), Asked(author, now_ms)
    one = await revision_of(connection, there, number)
    events_from_ms = one.meter.events_from_ms
    effective_from_ms = await from_counted(connection, number, events_from_ms, effective_from_ms)
    if one.state is RevisionState.IN_FORCE and one.effective_from_ms == effective_from_ms:
        return one
    if one.state not in PENDING:
        raise conflict(
            f"Revision {number} of meter {there.key!r} is {one.state}; only a pending one can be "
            "switched. Propose another one with the same definition."
        )
    waits = one.state is RevisionState.FILLING
    if waits and one.effective_from_ms == effective_from_ms:
        return one
    await keep_reports(connection, there, changed(one.meter, MeterChange()))
    _check_instant(there, one.meter, effective_from_ms)
    other = None if waits else await revisions.waiting(connection, there)
    summary = await _replaced(connection, other, asked)
    if other is not None:
        await rows.next_version(connection)
    await revisions.move(
        connection, [number], RevisionMove.REQUEST, effective_from_ms=effective_from_ms
    )
    summary.append(f"{_named(number, effective_from_ms)} asked for")
    await record(connection, there, Action.SWITCH, asked, ", ".join(summary))
    return await revision_of(connection, there, number)


async def discard(
    connection: Connection,
    namespace: str,
    id_or_key: str,
    number: int,
    now_ms: int,
    *,
    author: str = COMMAND,
) -> None:
    """Give up a revision that waits. Raises `Problem`."""
    there, asked = await in_turn(connection, namespace, id_or_key), Asked(author, now_ms)
    one = await revision_of(connection, there, number)
    if one.state is RevisionState.DISCARDED:
        return
    if one.state not in PENDING:
        raise conflict(
            f"Revision {number} of meter {there.key!r} is {one.state}: it has answered usage. "
            "Only a pending one can be discarded."
        )
    await rows.next_version(connection)
    await _discard(connection, one, asked)
    await record(connection, there, Action.DISCARD, asked, f"revision {number}")


async def end_pending(connection: Connection, there: Meter, asked: Asked) -> None:
    """Discard all that waits, of a meter that is deleted."""
    found_rows = await connection.execute(revisions.of_meter(there))
    for one in map(revisions.revision_of, found_rows.all()):
        if one.state in PENDING:
            await _discard(connection, one, asked)


async def switch(connection: Connection, number: int, asked: Asked) -> Meter | None:
    """Put a revision that waits in force; None where it does not wait (any more)."""
    one = await revisions.with_number(connection, number)
    if one is None or one.state is not RevisionState.FILLING:
        return None
    await rows.lock(connection, one.meter)  # whether a report is on it decides what is kept
    there = await rows.found(connection, one.meter.namespace, one.meter.id)
    assert there is not None, "a live meter has a revision in force"
    after = switched(there, one.meter, one.effective_from_ms)
    remaining = {part.revision for part in timeline(after)} - {number}
    gone = {part.revision for part in timeline(there)} - remaining
    now_ms = asked.now_ms
    await revisions.move(connection, gone, RevisionMove.SUPERSEDE, ended_at_ms=now_ms)
    await revisions.move(connection, remaining, RevisionMove.PRECEDE)
    await revisions.move(
        connection,
        [number],
        RevisionMove.SWITCH,
        switched_at_ms=now_ms,
        before_revision=None if after.before is None else after.before.revision,
    )
    await connection.execute(
        update(meters).where(meters.c.id == there.id).values(updated_at_ms=now_ms)
    )
    if await revisions.leave(connection, there, now_ms):
        await rows.next_version(connection)
    summary = _named(number, one.effective_from_ms)
    await record(connection, there, Action.SWITCH, asked, summary)
    return await rows.found(connection, there.namespace, there.id)


async def keep_reports(connection: Connection, there: Meter, draft: MeterDraft) -> None:
    """Refuse to take a dimension away that a report groups by."""
    gone = set(there.dimension_names) - {name for name, _ in draft.dimensions}
    if not gone:
        return
    await rows.lock(connection, there)
    for slug, group_by in await rows.reports_on(connection, there):
        for name in group_by:
            if name in gone:
                raise conflict(
                    f"The report {slug!r} groups by the dimension {name!r} of meter {there.key!r}:"
                    " keep the dimension, or delete the report first."
                )


async def record(
    connection: Connection,
    meter: Meter,
    action: Action,
    asked: Asked,
    detail: str = "",
    members: str = "",
) -> None:
    """Tell of a change, in its transaction."""
    of = (meter.namespace, asked.now_ms, asked.author, action, Kind.METER, meter.id, meter.key)
    await record_change(connection, Change(*of, detail, members))


async def revision_of(connection: Connection, there: Meter, number: int) -> MeterRevision:
    """A revision of a meter. Raises `Problem` (not found)."""
    one = await revisions.one(connection, there, number)
    if one is None:
        raise not_found("meter revision", str(number))
    return one


async def _discard(connection: Connection, one: MeterRevision, asked: Asked) -> None:
    now_ms = asked.now_ms
    await revisions.move(
        connection, [one.number], RevisionMove.DISCARD, ended_at_ms=now_ms, left_at_ms=now_ms
    )


def _check_instant(there: Meter, after: Meter, effective_from_ms: int | None) -> None:
    if effective_from_ms is None:
        return
    if (reason := instant_fault(effective_from_ms)) is not None:
        raise invalid(Fault("effective_from", reason, "instant"))
    if len(timeline(switched(there, after, effective_from_ms))) > METER_TIMELINE_MAX:
        raise conflict(
            f"{METER_TIMELINE_MAX} revisions answer for meter {there.key!r}, each from its first "
            "instant on, and there can be no more: leave effective_from out, or name an earlier "
            "instant."
        )


def judged(there: Meter, change: MeterChange) -> MeterDraft:
    """The definition that a change asks for. Raises `Problem` (invalid)."""
    draft = changed(there, change)
    if faults := faults_of(draft):
        raise invalid(*faults)
    return draft


def _named(number: int, effective_from_ms: int | None) -> str:
    since = "" if effective_from_ms is None else f" from {rfc3339(effective_from_ms)}"
    return f"revision {number}{since}"
