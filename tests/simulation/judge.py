"""The judgement on a world at rest, against the oracle's recount."""

from collections.abc import Iterator
from fractions import Fraction

from meterline.meter import Meter
from meterline.rows import AccountRow
from meterline.usage import UsageQuery
from meterline.window import MINUTE_MS, WindowSize
from tests.simulation.judge_runs import runs_complete, runs_decided_once
from tests.simulation.oracle import TIED, Read, Recount, expected, recount
from tests.simulation.world import World

UNIT = 10**18


def judge(world: World) -> None:
    """Every difference becomes a failure of the world."""
    partitions = [
        [(r.offset, r.append_ms, r.kind.value, r.value) for r in kept.all]
        for kept in world.log.partitions
    ]
    found = recount(partitions, world.profile.horizon_ms)
    checks = [_twice(world), _log(world, found), _events(world, found)]
    if not world.lost():
        checks.append(_account(world, found))
        checks += [_usage(world, found, meter) for meter in world.catalogue.meters]
    if world.claims_hold:
        checks += [_claims(world, found), _shown(world, found), runs_complete(world, found)]
    checks.append(runs_decided_once(world))
    for check in checks:
        for failure in check:
            world.fail(failure)


def _twice(world: World) -> Iterator[str]:
    yield from (f"decided twice: {what}" for what in world.usage.told_apart[:3])


def _log(world: World, found: Recount) -> Iterator[str]:
    """What was acknowledged is in the log and counts, and nothing is there that nobody sent."""
    counted = {event.identity for event in found.counted}
    for one in world.ledger.acknowledged:
        if one.identity not in counted:
            yield f"acknowledged and not in the log: {one}"
    for identity, places in found.places.items():
        if identity not in world.ledger.offered:
            yield f"never sent: {identity}"
        if len(places) > 1:
            yield f"copies do not meet: {identity} in partitions {sorted(places)}"


def _account(world: World, found: Recount) -> Iterator[str]:
    for number in range(world.profile.partitions):
        rows = [row for row in world.usage.tables["accounts"].values() if row.partition == number]
        for row in rows:
            if row.received != row.new + row.duplicate + row.conflict + row.invalid:
                yield f"an account that does not add up: {row}"
        yield from _differing(number, rows, found)


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
        for row in world.usage.tables["events"].values()
    )
    real = sorted((e.partition, e.offset, e.place, *e.identity) for e in found.counted)
    if stored != real and not (world.lost() and set(stored) < set(real)):
        lost, more = sorted(set(real) - set(stored)), sorted(set(stored) - set(real))
        yield f"events kept: missing {lost[:3]}, too many {more[:3]}"


def _usage(world: World, found: Recount, meter: Meter) -> Iterator[str]:
    names = meter.dimension_names
    rows = world.usage.usage(
        UsageQuery(meter, window=WindowSize.MINUTE, group_by=("subject", *names))
    )
    shown = {
        (row.from_ms // MINUTE_MS, row.subject or "", tuple(value for _, value in row.groups)): (
            Fraction(row.value, UNIT),
            row.count,
            row.rejected,
        )
        for row in rows
    }
    paths = [path for _, path in meter.dimensions]
    real = expected(
        found.counted, meter.event_type, meter.aggregation.value, meter.value_property, paths
    )
    for key in sorted(shown.keys() | real.keys()):
        one, other = shown.get(key), real.get(key)
        if other is not None and one is not None and other[0] == TIED:
            one = (TIED, *one[1:])
        if one != other:
            yield f"revision {meter.revision} ({meter.aggregation}), {key}: {one}, not {other}"
            return


def _claims(world: World, found: Recount) -> Iterator[str]:
    """What was recorded up to a claimed instant, and acknowledged at whatever time, was there."""
    first = {
        (row.source, row.id): world.usage.first_at[row.key]
        for row in world.usage.tables["events"].values()
    }
    places = {identity: min(numbers) for identity, numbers in found.places.items()}
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
    again = len(found.counted) != len(counted)
    units: dict[str, list[tuple[int, int]]] = {}  # by event type: (recorded, units)
    for event_type in ("t", "u"):
        units[event_type] = [
            (one.recorded_ms, _units(counted[one.identity], event_type))
            for one in world.ledger.acknowledged
            if one.identity in counted
        ]
    sums = [shown for shown in world.shown if shown.meter.value_property == "$.v"]
    for shown in [] if again else sums:
        needed = all_units = 0
        for recorded_ms, own in units[shown.meter.event_type]:
            if recorded_ms <= shown.until_ms:
                needed |= own
        for event in found.counted:
            all_units |= _units(event, shown.meter.event_type)
        if needed & ~shown.units or shown.units & ~all_units:
            missing, strange = needed & ~shown.units, shown.units & ~all_units
            yield f"not complete as said: {shown}: missing {missing:x}, strange {strange:x}"
            return


def _units(event: Read, event_type: str) -> int:
    data = event.data if isinstance(event.data, dict) else {}
    if event.type != event_type or "v" not in data:
        return 0
    return int(Fraction(data["v"]) * UNIT)
