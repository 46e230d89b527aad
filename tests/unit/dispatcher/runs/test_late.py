"""Late usage, over embedded stores: found once it is counted, recorded or sent, never doubled."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from aggregator.backfill.filler import FillStores
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.meter import Aggregation, MeterChange, MeterDraft
from meterline.number import UNIT
from meterline.report import (
    Cause,
    Report,
    ReportChange,
    ReportFilter,
    Revisions,
    Run,
    RunState,
    Trigger,
)
from meterline.usage import Comparison, Condition
from meterline.window import DAY_MS, HOUR_MS
from tests.unit.aggregator.world import filled_up
from tests.unit.dispatcher.runs.late_world import START_MS, LateWorld, minutes, opened

END_MS = START_MS + HOUR_MS
HOUR = (START_MS, END_MS)


@pytest.fixture
async def world(
    tmp_path: Path,
    usage_store: ClickHouseUsageStore,
    migrated: Path,
    fresh_numbers: Iterator[int],
) -> AsyncIterator[LateWorld]:
    async with opened(tmp_path, usage_store, migrated, fresh_numbers) as made:
        yield made


async def reported(
    world: LateWorld,
    revisions: Revisions = Revisions.RECORD,
    filter_: ReportFilter | None = None,
) -> Report:
    """A report whose first hour was run: acme has a: 3, b: 4, zeta has a: 5."""
    report = await world.report(revisions, filter_)
    await world.send(
        ("acme", "a", START_MS, 3),
        ("acme", "b", START_MS + minutes(7), 4),
        ("zeta", "a", END_MS - 1, 5),
        ("next", "a", END_MS, 6),
    )
    world.clock.at_ms = END_MS + minutes(1)
    await world.count(seal=False)
    await world.plan_all()
    (run,) = await world.runs()
    assert run.manifest is not None
    assert run.manifest.counted is not None
    return report


async def later(world: LateWorld, *events: tuple[str, str, int, int]) -> None:
    """What comes after the run, counted, sealed and seen to."""
    await world.send(*events)
    await world.count()
    await world.plan_all()


async def of_first_hour(world: LateWorld) -> list[Run]:
    return [run for run in await world.runs() if run.from_ms == START_MS]


async def test_late_events_are_recorded_and_nothing_is_sent(world: LateWorld) -> None:
    await reported(world)
    await later(world, ("acme", "b", START_MS, 10), ("new", "a", END_MS - 1, 1))
    first, second = await of_first_hour(world)
    assert (second.trigger, second.state, second.revision) == (Trigger.LATE, RunState.RECORDED, 2)
    assert (second.supersedes, second.meter_revision) == (first.id, world.meter.revision)
    assert await world.corrected(second) == {("acme", "b"): (4, 14), ("new", "a"): (None, 1)}
    sent = {one.subject: one for one in await world.reports.deliveries(first.id, 9)}
    acme, new = [it.correction for it in await world.corrections.corrections(second.id, 9)]
    assert (acme.cause, acme.difference) == (Cause.LATE_USAGE, 10 * UNIT)
    assert (acme.replaces, acme.replaced_digest) == (sent["acme"].id, sent["acme"].digest)
    assert (new.cause, new.difference, new.replaces) == (Cause.FIRST_SEEN, UNIT, None)
    assert second.manifest is not None
    assert (second.manifest.deliveries, second.manifest.corrections) == (0, 2)
    assert second.manifest.total == 23 * UNIT
    assert await world.reports.deliveries(second.id, 9) == []
    await world.check(1)


@pytest.mark.parametrize("looked", [True, False])
async def test_what_comes_while_a_run_is_made_is_late_however_soon_it_is_looked_at(
    world: LateWorld, looked: bool
) -> None:
    await world.report()
    await world.send(("acme", "a", START_MS, 3))
    world.clock.at_ms = END_MS + minutes(1)
    await world.count(seal=False)

    async def meanwhile() -> None:
        await world.send(("acme", "a", START_MS, 4))
        await world.count(seal=looked)
        if looked:  # by another dispatcher: it does not find the run, which is not decided
            assert await world.looked_at()

    world.meanwhile = meanwhile
    await world.plan_all()
    assert world.meanwhile is None
    await world.count()
    await world.plan_all()
    _, second = await of_first_hour(world)
    assert await world.corrected(second) == {("acme", "a"): (3, 7)}
    await world.check(1)


async def test_they_are_sent_where_the_report_says_so(world: LateWorld) -> None:
    await reported(world, Revisions.SEND)
    await later(world, ("acme", "b", START_MS, 10), ("new", "a", END_MS - 1, 1))
    first, second = await of_first_hour(world)
    assert (second.trigger, second.state) == (Trigger.LATE, RunState.DELIVERING)
    sent = {one.subject: one for one in await world.reports.deliveries(first.id, 9)}
    told = {one.subject: one for one in await world.reports.deliveries(second.id, 9)}
    assert {name: (it.revision, it.supersedes) for name, it in told.items()} == {
        "acme": (2, sent["acme"].id),
        "new": (2, None),
    }
    body = await world.reports.delivery_body("default", told["acme"].id)
    assert body is not None
    run = msgspec.json.decode(body)["run"]
    assert (run["trigger"], run["revision"], run["supersedes"]) == ("late", 2, sent["acme"].id)
    assert await world.corrected(second) == {("acme", "b"): (4, 14), ("new", "a"): (None, 1)}
    await world.check(1)


async def test_what_a_run_had_counted_is_not_late_when_its_slice_is_sealed(
    world: LateWorld,
) -> None:
    await reported(world)
    await world.count()
    assert await world.late.unlooked(world.log.number, 2, 10**9) != []
    await world.plan_all()
    assert await world.late.unlooked(world.log.number, 2, 10**9) == []
    assert [run.trigger for run in await of_first_hour(world)] == [Trigger.SCHEDULE]
    assert await world.late.due_windows(world.now_ms, 0, 9) == []


async def test_a_comparison_that_finds_nothing_new_leaves_nothing(world: LateWorld) -> None:
    only_acme = ReportFilter(subject=(Condition(Comparison.EQ, ("acme",)),))
    await reported(world, filter_=only_acme)
    await world.send(("zeta", "a", START_MS, 1))
    await world.count()
    assert await world.plan() > 0
    await world.plan_all()
    assert len(await of_first_hour(world)) == 1
    # what was compared is not compared again
    assert await world.late.due_windows(world.now_ms + HOUR_MS, world.pause_ms, 9) == []


async def test_a_window_is_revised_once_a_pause(world: LateWorld) -> None:
    await reported(world)
    await later(world, ("acme", "a", START_MS, 1))
    await later(world, ("acme", "a", START_MS, 1))
    await later(world, ("acme", "a", START_MS, 1))
    assert len(await of_first_hour(world)) == 2
    world.clock.at_ms += world.pause_ms
    await world.count()
    await world.plan_all()
    _, second, third = await of_first_hour(world)
    assert await world.corrected(second) == {("acme", "a"): (3, 4)}
    # against what was sent: the second one was not
    assert await world.corrected(third) == {("acme", "a"): (3, 6)}
    assert third.supersedes == second.id
    await world.check(1)


async def test_what_is_taken_back_is_recorded_too(world: LateWorld) -> None:
    world.pause_ms = 0
    await reported(world)
    await later(world, ("acme", "a", START_MS, 9))
    await later(world, ("acme", "a", START_MS, -9))
    _, second, third = await of_first_hour(world)
    assert second.state is RunState.RECORDED
    assert (third.state, await world.corrected(third)) == (RunState.SUCCEEDED, {})
    await later(world, ("acme", "a", START_MS, 0))
    assert len(await of_first_hour(world)) == 3
    await world.check(1)


async def test_what_was_recorded_only_can_be_sent_by_hand(world: LateWorld) -> None:
    report = await reported(world)
    await later(world, ("acme", "a", START_MS, 1))
    await world.reports.request_run(report, *HOUR, world.now_ms, revise=True)
    await world.plan_all()
    first, second, third = await of_first_hour(world)
    assert (third.trigger, third.state) == (Trigger.MANUAL, RunState.DELIVERING)
    assert third.supersedes == second.id
    assert await world.corrected(third) == await world.corrected(second)
    (delivery,) = await world.reports.deliveries(third.id, 9)
    acme = (await world.reports.deliveries(first.id, 9))[0]
    assert (delivery.subject, delivery.supersedes) == ("acme", acme.id)
    world.clock.at_ms += world.pause_ms
    await later(world, ("acme", "a", START_MS, 1))
    *_, fourth = await of_first_hour(world)
    assert await world.corrected(fourth) == {("acme", "a"): (4, 5)}
    await world.check(1)


async def test_a_late_run_asks_what_its_run_asked(world: LateWorld) -> None:
    report = await reported(world)
    only_zeta = ReportFilter(subject=(Condition(Comparison.EQ, ("zeta",)),))
    change = ReportChange(filter=only_zeta, group_by=())
    await world.reports.update_report(report.id, change, world.now_ms)
    await later(world, ("acme", "a", START_MS, 1))
    _, second = await of_first_hour(world)
    assert await world.corrected(second) == {("acme", "a"): (3, 4)}
    await world.check(1)


async def test_a_late_run_asks_the_meter_revision_that_its_run_asked(world: LateWorld) -> None:
    world.pause_ms = 0
    await reported(world)
    change = MeterChange(value_property="$.another")
    await world.catalogue.update_meter("default", world.meter.id, change, world.now_ms)
    (waiting,) = await world.catalogue.filling()
    assert await world.catalogue.switch_filled(waiting, world.now_ms) is not None
    await later(world, ("acme", "a", START_MS, 1))
    _, second = await of_first_hour(world)
    assert second.meter_revision == world.meter.revision
    assert await world.corrected(second) == {("acme", "a"): (3, 4)}
    # once that one is not counted any more, the run is refused, and does not hold up others
    assert await world.catalogue.retire(world.now_ms + 91 * DAY_MS) == {world.meter.revision}
    await later(world, ("acme", "a", START_MS, 1))
    third = (await of_first_hour(world))[-1]
    assert (third.trigger, third.state) == (Trigger.LATE, RunState.FAILED)
    assert f"revision {world.meter.revision} of the meter" in third.reason


async def test_an_entry_that_does_not_pass_any_more_is_corrected_away(world: LateWorld) -> None:
    small = ReportFilter(usage=(Condition(Comparison.LT, (10 * UNIT,)),))
    await reported(world, filter_=small)
    await later(world, ("acme", "b", START_MS, 100), ("zeta", "b", START_MS, 100))
    _, second = await of_first_hour(world)
    (one,) = [it.correction for it in await world.corrections.corrections(second.id, 9)]
    assert (one.subject, one.groups) == ("acme", (("model", "b"),))
    assert (one.old, one.new, one.cause) == (4 * UNIT, None, Cause.FILTER)


async def test_a_slice_that_is_open_is_glanced_at(world: LateWorld) -> None:
    await reported(world)
    glanced = await world.glance()
    await world.send(("acme", "a", START_MS, 1))
    world.clock.at_ms += minutes(1)
    await world.count(seal=False)
    assert await world.glance(glanced) == await world.glance()
    await world.plan_all()
    _, second = await of_first_hour(world)
    assert await world.corrected(second) == {("acme", "a"): (3, 4)}
    world.clock.at_ms += world.pause_ms
    await world.count()
    await world.plan_all()
    # looked at as a sealed one, it has nothing new to say
    assert len(await of_first_hour(world)) == 2
    assert await world.late.due_windows(world.now_ms + HOUR_MS, 0, 9) == []


async def test_what_is_filled_in_is_not_late(world: LateWorld) -> None:
    await reported(world)
    await world.count()
    await world.plan_all()
    draft = MeterDraft("calls", "Calls", Aggregation.COUNT, world.meter.event_type)
    await world.catalogue.create_meter("default", draft, world.now_ms)
    await world.count()
    catalogue = await world.catalogue.catalogue()
    filled = 0
    for number in range(2):
        stores = FillStores(world.usage, world.progress, world.log.number)
        filled += await filled_up(stores, catalogue, number)
    assert filled
    assert await world.plan() == 0
    await world.glance()
    assert await world.late.due_windows(world.now_ms, 0, 9) == []
    assert len(await of_first_hour(world)) == 1


@pytest.mark.parametrize("seed", range(4))
async def test_whoever_dies_wherever_corrections_are_those_of_a_recount(
    world: LateWorld, seed: int
) -> None:
    rng = random.Random(seed)
    world.pause_ms = 0
    revisions = rng.choice(list(Revisions))
    await world.report(revisions)
    hours = 3

    def fate() -> str:
        deadly = ("die before", "die after", "fail before", "fail after")
        return rng.choice(deadly) if rng.random() < 0.04 else "well"

    for turn in range(14):
        world.clock.at_ms += minutes(rng.choice((1, 20, 40)))
        events = [
            (rng.choice("xyz"), rng.choice("ab"), at_ms, rng.randint(-3, 9))
            for _ in range(rng.randint(0, 5))
            if (at_ms := START_MS + rng.randrange(hours * HOUR_MS)) <= world.now_ms
        ]
        await world.send(*events)
        if rng.random() < 0.5:
            await world.count(seal=turn % 3 == 0)
        if rng.random() < 0.3:
            await world.glance()
        await asyncio.gather(
            *(world.plan_through(fate) for _ in range(rng.choice((1, 2, 2)))),
            world.count(seal=turn % 3 == 0),  # while runs are made
        )
    world.clock.at_ms = max(world.now_ms, START_MS + hours * HOUR_MS)
    for _ in range(3):
        world.clock.at_ms += minutes(3)
        await world.count()
        await world.plan_all()
    assert len(await world.runs()) >= hours
    await world.check(hours)
