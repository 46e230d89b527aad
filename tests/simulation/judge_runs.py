"""The judgement on what dispatchers made of runs."""

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from meterline.delivery import DeliveryState
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


def deliveries_made(world: World) -> Iterator[str]:
    """Each delivery came at least once, always the same bytes; one that was given up may have."""
    for name, post in world.outbox.posts.items():
        got = world.receivers.got.get(name, [])
        if any(body != post.draft.body for body in got):
            yield f"delivery {name} came with other bytes"
        if not got and post.state is DeliveryState.DELIVERED:
            yield f"delivery {name} is said to be delivered, and never came"
        ends = not (world.lost() or world.profile.wild_clocks)  # a lease may end in an hour there
        if ends and post.state not in (DeliveryState.DELIVERED, DeliveryState.FAILED):
            yield f"delivery {name} is {post.state} at rest"
    for name in world.receivers.got.keys() - world.outbox.posts.keys():
        yield f"a delivery came that nobody decided: {name}"


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
    if len(decided.corrections) != manifest.corrections:
        yield f"run {decided.run.id}: its corrections are not those of its manifest"
    if decided.run.revision == 1 and total * UNIT != manifest.total:
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
    meters = {meter.revision: meter for meter in world.catalogue.ever}
    for decided in world.reports.decided:
        run = decided.run
        assert run.meter_revision is not None, "decided"
        meter = meters[run.meter_revision]
        due_ms = max(run.to_ms + GRACE_MS, run.asked_at_ms)
        within = [
            event
            for event in found.counted
            if run.from_ms <= event.time_ms < run.to_ms
            and event.type == world.catalogue.answering(meter, event.time_ms).event_type
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


Entry = tuple[str, tuple[str, ...]]  # subject, group values


def runs_revised(world: World, found: Recount) -> Iterator[str]:
    """What receivers hold of each window, with the corrections that are recorded, is what the log
    says: whatever came late was found.
    """
    windows: dict[tuple[str, int, int], list[Decided]] = {}
    for one in sorted(world.reports.decided, key=lambda it: it.run.revision):
        run = one.run
        windows.setdefault((run.report_id, run.from_ms, run.to_ms), []).append(one)
    for window, told in windows.items():
        said, real = _owed(told), _real(world, found, told[-1])
        if said != real:
            wrong = sorted(
                key for key in said.keys() | real.keys() if said.get(key) != real.get(key)
            )
            says, is_ = said.get(wrong[0]), real.get(wrong[0])
            revisions = [it.run.revision for it in told]
            yield f"late usage was not found: {window} {revisions}, {wrong[0]}: {says}, not {is_}"
            return


def _owed(told: list[Decided]) -> dict[Entry, Fraction]:
    by_subject: dict[str, dict[Entry, Fraction]] = {}
    for one in told:
        for draft in one.deliveries:
            entries = json.loads(draft.body)["usage"]
            by_subject[draft.subject] = {
                (draft.subject, tuple(text for _, text in sorted(it["groupBy"].items()))): Fraction(
                    it["valueText"]
                )
                for it in entries
            }
    owed = {key: value for entries in by_subject.values() for key, value in entries.items()}
    if not told[-1].deliveries:
        for correction in told[-1].corrections:
            key = (correction.subject, tuple(text for _, text in correction.groups))
            assert owed.get(key) == _fraction(correction.old), "it corrects what was sent"
            owed.pop(key, None)
            if correction.new is not None:
                owed[key] = Fraction(correction.new, UNIT)
    return owed


def _fraction(units: int | None) -> Fraction | None:
    return None if units is None else Fraction(units, UNIT)


def _real(world: World, found: Recount, decided: Decided) -> dict[Entry, Fraction]:
    run = decided.run
    assert run.meter_revision is not None, "decided"
    meter = next(m for m in world.catalogue.ever if m.revision == run.meter_revision)
    sums: dict[Entry, Fraction] = {}
    for event in found.counted:
        answering = world.catalogue.answering(meter, event.time_ms)
        if not run.from_ms <= event.time_ms < run.to_ms or event.type != answering.event_type:
            continue
        data = event.data if isinstance(event.data, dict) else {}
        if "v" not in data:
            continue
        has = set(answering.dimension_names)
        values = [str(data.get(n, "")) if n in has else "" for n in decided.report.group_by]
        key = (event.subject, tuple(values))
        sums[key] = sums.get(key, Fraction(0)) + Fraction(data["v"])
    return sums
