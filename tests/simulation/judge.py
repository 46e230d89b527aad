"""The judgement on a world at rest, against the oracle's recount."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from meterline.event import Record, record_digest
from meterline.meter import Meter, dimensions_ever
from meterline.usage import AccountRow, UsageQuery
from meterline.window import MINUTE_MS, WindowSize
from tests.simulation.erasing.judging import seen_by
from tests.simulation.judge_runs import (
    deliveries_made,
    runs_complete,
    runs_decided_once,
    runs_revised,
)
from tests.simulation.oracle import TIED, Read, Recount, expected, recount
from tests.simulation.world import World

UNIT: Final = 10**18
FOLDED_LATER: Final = frozenset({"tallies", "members", "rejected", "late_tallies", "late_members"})
NOWHERE: Final = "$."  # of a group-by key that a revision has not


def judge(world: World) -> None:
    """Every difference becomes a failure of the world."""
    now = [[_fields(r) for r in kept.all] for kept in world.log.partitions]
    before = [
        [_fields(r) for r in world.restored[n]] if n in world.restored else records
        for n, records in enumerate(now)
    ]
    horizon_ms = world.profile.horizon_ms
    made_with = world.profile.partitions
    # what was counted, where the log was restored
    found = recount(before, horizon_ms, made_with)
    lying = recount(now, horizon_ms) if world.restored else found
    checks = [_twice(world), _log(world, found, lying), _events(world, found), _stopped(world)]
    if not world.lost():
        checks += [_account(world, found), _sealed(world)]
        checks += [_usage(world, found, meter) for meter in world.catalogue.in_force]
        checks += [_alone(world, found, meter) for meter in world.catalogue.meters]
    if world.claims_hold:
        checks += [
            _claims(world, found, lying),
            _shown(world, found),
            runs_complete(world, found),
        ]
    if world.late_is_revised:
        checks.append(runs_revised(world, found))
    checks += [runs_decided_once(world), deliveries_made(world), _differences(world)]
    for check in checks:
        for failure in check:
            world.fail(failure)


def _fields(record: Record) -> tuple[int, int, str, bytes]:
    return (record.offset, record.append_ms, record.kind.value, record.value)


def _stopped(world: World) -> Iterator[str]:
    """Of a partition that was restored to an older state, nothing is sealed any more."""
    for number, records in world.restored.items():
        last = {record.offset + 1: record for record in records}
        for seal in world.progress.ever:
            if seal.partition != number:
                continue
            record = last.get(seal.end)
            if record is None or record_digest(record) != seal.digest:
                yield f"counted on in a log that was restored: {seal}"
                return


def _differences(world: World) -> Iterator[str]:
    """No slice is said to differ that does not. One that a replica lags with, or whose last rows a
    store forgot, does for whoever counts it back.
    """
    if world.profile.replicas_lag or world.profile.lossy or world.profile.usage_lost:
        return
    for slice_id in sorted(world.progress.recorded - world.decay.lost.keys()):
        yield f"{slice_id} is said to differ, and does not"


def _twice(world: World) -> Iterator[str]:
    """No cell is decided twice. A newer meter is folded from the events of an open slice that the
    store has: where it forgot some, from too few, until the slice is counted back and read again.
    """
    found = [
        f"decided twice: {table}: {before} and then {after}"
        for table, before, after in world.usage.told_apart
        if table not in FOLDED_LATER
        or (after.log, after.partition, after.slice) not in world.usage.forgot_events
    ]
    yield from found[:3]


def _log(world: World, found: Recount, lying: Recount) -> Iterator[str]:
    """What was acknowledged is in the log and counts, and nothing is there that nobody sent."""
    counted = {event.identity for event in (*found.counted, *lying.counted)}
    for one in world.ledger.acknowledged:
        if one.identity not in counted:
            yield f"acknowledged and not in the log: {one}"
    for identity, places in found.places.items():
        if identity not in world.ledger.offered:
            yield f"never sent: {identity}"
        if len({place % world.profile.partitions for place in places}) > 1:
            yield f"copies do not meet: {identity} in partitions {sorted(places)}"


def _account(world: World, found: Recount) -> Iterator[str]:
    for number in range(world.partitions):
        rows = [row for row in world.usage.tables["accounts"].values() if row.partition == number]
        for row in rows:
            if row.received != row.new + row.duplicate + row.conflict + row.invalid:
                yield f"an account that does not add up: {row}"
        yield from _differing(number, rows, found)


def _sealed(world: World) -> Iterator[str]:
    """Seals and their sums tell of each sealed event once, and of no other."""
    log = world.log.number
    for number in range(world.partitions):
        told = world.progress.all_seals(log, number)
        end = told[-1].end if told else 0
        rows = world.usage.tables["events"].values()
        there = sum(row.partition == number and row.offset < end for row in rows)
        if there != sum(seal.events for seal in told):
            yield f"seals of partition {number}: not {there} events, but {told}"


def _differing(number: int, rows: list[AccountRow], found: Recount) -> Iterator[str]:
    for verdict in ("new", "duplicate", "conflict", "invalid"):
        stored = sum(getattr(row, verdict) for row in rows)
        if stored != found.by_partition[number][verdict]:
            expected_ = found.by_partition[number][verdict]
            yield f"account of partition {number}: {stored} {verdict}, the log has {expected_}"


def _events(world: World, found: Recount) -> Iterator[str]:
    """Each event that counts is kept exactly once, and no other one."""
    stored = sorted(
        (row.partition, row.offset, row.place, row.source, row.id)
        for row in world.usage.whole.tables["events"].values()
    )
    real = sorted((e.partition, e.offset, e.place, *e.identity) for e in found.counted)
    if stored != real and not (world.lost() and set(stored) < set(real)):
        lost, more = sorted(set(real) - set(stored)), sorted(set(stored) - set(real))
        yield f"events kept: missing {lost[:3]}, too many {more[:3]}"


Cells = dict[tuple[int, str, tuple[str, ...]], tuple[Fraction, int, int]]


def _usage(world: World, found: Recount, meter: Meter) -> Iterator[str]:
    """What a meter says, each window by the revision that answers it."""
    names = dimensions_ever(meter)
    real: Cells = {}
    for _, part in world.catalogue.switches[meter.id]:
        for key, value in _expected(world, found, part, names).items():
            if world.catalogue.answering(meter, key[0] * MINUTE_MS).revision == part.revision:
                real[key] = value
    yield from _differs(meter, _said(world, meter, names), real)


def _alone(world: World, found: Recount, meter: Meter) -> Iterator[str]:
    """What a revision by itself has counted, also where it does not answer (yet, or any more)."""
    alone = replace(meter, before=None, effective_from_ms=None)
    names = meter.dimension_names
    yield from _differs(meter, _said(world, alone, names), _expected(world, found, alone, names))


def _expected(world: World, found: Recount, meter: Meter, names: tuple[str, ...]) -> Cells:
    paths = dict(meter.dimensions)
    return expected(
        seen_by(world, found.counted, meter.revision),
        meter.event_type,
        meter.aggregation.value,
        meter.value_property,
        [paths.get(name, NOWHERE) for name in names],
    )


def _said(world: World, meter: Meter, names: tuple[str, ...]) -> Cells:
    query = UsageQuery(meter, window=WindowSize.MINUTE, group_by=("subject", *names))
    return {
        (row.from_ms // MINUTE_MS, row.subject or "", tuple(value for _, value in row.groups)): (
            Fraction(row.value, UNIT),
            row.count,
            row.rejected,
        )
        for row in world.blocks.by_minute(query, world.erasures.hidden())
    }


def _differs(meter: Meter, said: Cells, real: Cells) -> Iterator[str]:
    for key in sorted(said.keys() | real.keys()):
        one, other = said.get(key), real.get(key)
        if other is not None and one is not None and other[0] == TIED:
            one = (TIED, *one[1:])
        if one != other:
            yield f"revision {meter.revision} ({meter.aggregation}), {key}: {one}, not {other}"
            return


def _claims(world: World, found: Recount, lying: Recount) -> Iterator[str]:
    """What was recorded up to a claimed instant, and acknowledged at whatever time, was there."""
    first = {
        (row.source, row.id): world.usage.first_at[row.key]
        for row in world.usage.whole.tables["events"].values()
    }
    both = {**lying.places, **found.places}
    # of a log that grew, the newer one: its claims speak of what was in the older one, too
    places = {identity: max(numbers) for identity, numbers in both.items()}
    for claim in world.claimed:
        for one in world.ledger.acknowledged:
            if (
                one.recorded_ms <= claim.until_ms
                and places.get(one.identity) == claim.partition
                and first.get(one.identity, claim.writes + 1) > claim.writes
            ):
                yield f"claimed too early: {claim}, before {one} was there"
                return


def _shown(world: World, found: Recount) -> Iterator[str]:
    """What an answer that said it was complete held: all that was acknowledged, once each."""
    counted: dict[tuple[str, str], Read] = {event.identity: event for event in found.counted}
    if len(found.counted) != len(counted):
        return  # an event came again behind the horizon: sums cannot be taken apart
    for shown in world.shown:
        if shown.meter.value_property != "$.v":
            continue
        units = {key: _units(world, shown.meter, event) for key, event in counted.items()}
        needed = all_units = 0
        for one in world.ledger.acknowledged:
            if one.recorded_ms <= shown.until_ms:
                needed |= units.get(one.identity, 0)
        for own in units.values():
            all_units |= own
        if needed & ~shown.units or shown.units & ~all_units:
            missing, strange = needed & ~shown.units, shown.units & ~all_units
            yield f"not complete as said: {shown}: missing {missing:x}, strange {strange:x}"
            return


def _units(world: World, meter: Meter, event: Read) -> int:
    part = world.catalogue.answering(meter, event.time_ms)
    (seen,) = seen_by(world, [event], part.revision)
    data = seen.data if isinstance(seen.data, dict) else {}
    if event.type != part.event_type or "v" not in data:
        return 0
    return int(Fraction(data["v"]) * UNIT)
