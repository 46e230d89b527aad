"""The judgement on what dispatchers made of runs."""

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tests.simulation.oracle import Read, Recount
from tests.simulation.reports import Decided
from tests.simulation.world import World

UNIT: Final = 10**18
GRACE_MS: Final = 60_000


def runs_decided_once(world: World) -> Iterator[str]:
    """One decision a run; the numbers of a report's deliveries have no gap; bodies are whole."""
    reports = world.reports
    once = {decided.run.id for decided in reports.decided}
    if len(once) != len(reports.decided):
        yield "a run was decided twice"
    for name in reports.reports:
        numbers = sorted(
            draft.sequence
            for decided in reports.decided
            if decided.run.report_id == name
            for draft in decided.deliveries
        )
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the numbers of report {name} have gaps: {numbers}"
    for decided in reports.decided:
        yield from _whole(decided)


def _whole(decided: Decided) -> Iterator[str]:
    manifest = decided.manifest
    digest = hashlib.blake2b(digest_size=32)
    total = Fraction(0)
    for draft in decided.deliveries:
        digest.update(draft.id.encode())
        digest.update(hashlib.blake2b(draft.body, digest_size=32).digest())
        total += _total(draft.body)
    if digest.hexdigest() != manifest.digest or len(decided.deliveries) != manifest.deliveries:
        yield f"run {decided.run.id}: its deliveries are not those of its manifest"
    if total * UNIT != manifest.total:
        yield f"run {decided.run.id}: its deliveries say {total}, its manifest {manifest.total}"


def _total(body: bytes) -> Fraction:
    return sum((Fraction(it["valueText"]) for it in json.loads(body)["usage"]), Fraction(0))


def runs_complete(world: World, found: Recount) -> Iterator[str]:
    """A run holds all that was acknowledged for its window before it was due, once each, and
    nothing that nobody sent.
    """
    counted = {event.identity: event for event in found.counted}
    if len(counted) != len(found.counted):
        return  # an event came again behind the horizon: sums cannot be taken apart
    types = {meter.revision: meter.event_type for meter in world.catalogue.ever}
    for decided in world.reports.decided:
        run = decided.run
        assert run.meter_revision is not None, "decided"
        event_type = types[run.meter_revision]
        due_ms = max(run.to_ms + GRACE_MS, run.asked_at_ms)
        within = [
            event
            for event in found.counted
            if event.type == event_type and run.from_ms <= event.time_ms < run.to_ms
        ]
        possible = _together(within)
        needed = _together(
            [
                counted[one.identity]
                for one in world.ledger.acknowledged
                if one.recorded_ms <= due_ms and counted.get(one.identity) in within
            ]
        )
        if needed & ~decided.manifest.total or decided.manifest.total & ~possible:
            missing = needed & ~decided.manifest.total
            strange = decided.manifest.total & ~possible
            yield f"a run is not complete: {run}: missing {missing:x}, strange {strange:x}"
            return


def _together(events: list[Read]) -> int:
    units = 0
    for event in events:
        if isinstance(event.data, dict) and "v" in event.data:
            units |= int(Fraction(event.data["v"]) * UNIT)
    return units
