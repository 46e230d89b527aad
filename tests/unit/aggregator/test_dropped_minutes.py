"""Usage by minute is dropped over real embedded stores: what is asked meanwhile and afterwards is
told as a fold of the raw events tells it, or refused. Never anything else.
"""

from functools import partial

import pytest

from meterline.backends.clickhouse.usage.snapshot import BlockSnapshot
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.limits import BLOCK_KEPT_MS, BLOCK_MAKING_MS, RETENTION_NOTICE_MS
from meterline.meter import MeterChange
from meterline.ports import Unavailable
from meterline.usage import ErasureState, Period, UsageQuery
from meterline.window import DAY_MS
from tests.unit.aggregator.minutes import Minutes
from tests.unit.aggregator.world import Killed

MANY = 40  # questions, of which a share is refused


async def test_hours_are_told_as_before_and_minutes_are_refused(minutes: Minutes) -> None:
    await minutes.ask(MANY)
    assert not minutes.refusals
    assert await minutes.step() == [], "a day after the notice"
    assert await minutes.stored()
    await minutes.ask(MANY)
    assert minutes.refusals, "from the notice on"
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    assert {one.table for one in await minutes.step()} == {"tallies", "members"}
    assert await minutes.stored() == 0
    await minutes.ask(MANY)
    await minutes.total()
    assert minutes.answers > 2 * minutes.refusals > 0


async def test_killed_before_and_after_each_step_answers_stay_right(minutes: Minutes) -> None:
    for turn in ("notice", "drop"):
        calls = 0
        while True:
            calls += 1
            fates = iter(["well"] * (calls // 2) + [("die before", "die after")[calls % 2]])
            retention = minutes.retention(partial(next, fates, "well"))
            try:
                await retention.step(minutes.it.now_ms)
            except Killed:
                minutes.it.read()
                await minutes.ask(4)
                await minutes.total()
                continue
            break
        assert calls > 2 * len(("periods", "sealed_ends", "reach", "give_notice")), turn
        minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    assert await minutes.stored() == 0
    await minutes.ask()
    await minutes.total()


async def test_late_usage_of_dropped_months_counts_at_once_and_stays_exact(
    minutes: Minutes,
) -> None:
    await minutes.dropped()
    late = (110 * DAY_MS, 62 * DAY_MS, 0)
    for seal in (False, True, True):
        await minutes.send(late, seal=seal)
        await minutes.ask(10)
        await minutes.total()
    await minutes.it.blocks()
    await minutes.ask(10)
    assert await minutes.stored(), "they lie where others were dropped"
    await minutes.step()
    assert await minutes.stored() == 0, "the notice stands"
    await minutes.ask()
    await minutes.total()


async def test_what_is_in_no_block_keeps_its_minutes(minutes: Minutes) -> None:
    first, january = len(minutes.events), range(minutes.january_ms, minutes.february_ms)
    while not any(one.time_ms in january for one in minutes.events[first:]):
        await minutes.send((118 * DAY_MS,))  # most are older
    await minutes.step()
    assert await SqlRetention(minutes.world.database).notices() == []
    await minutes.it.blocks()
    await minutes.step()
    assert await SqlRetention(minutes.world.database).notices()


async def test_blocks_that_cannot_be_made_again_are_not_withdrawn(minutes: Minutes) -> None:
    await minutes.dropped()
    ledger, number = SqlBlockLedger(minutes.world.database), minutes.world.log.number
    first = next(it for it in await ledger.blocks(number) if not it.begin_ms)
    assert not await ledger.withdraw(number, [first.number], minutes.it.now_ms)
    await minutes.ask(12)
    connection = minutes.world.usage.connection
    await connection.execute(f"ALTER TABLE days DROP PARTITION {first.number}")
    await minutes.it.sweep()
    minutes.it.read()
    with pytest.raises(Unavailable):
        await minutes.integrity.check()
    assert first.number in {it.number for it in await ledger.blocks(number)}


async def test_what_is_lost_before_the_drop_is_made_again_and_nothing_is_dropped(
    minutes: Minutes,
) -> None:
    """Blocks lose rows between the notice and the drop: minutes are all that is left."""
    await minutes.step()
    ledger, number = SqlBlockLedger(minutes.world.database), minutes.world.log.number
    first = next(it for it in await ledger.blocks(number) if not it.begin_ms)
    connection = minutes.world.usage.connection
    await connection.execute(f"ALTER TABLE days DROP PARTITION {first.number}")
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    with pytest.raises(Unavailable, match="has not the rows"):
        await minutes.step()
    assert await minutes.stored()
    await minutes.it.sweep()
    minutes.it.read()
    query = UsageQuery(await minutes.it.meter("sum"))
    with pytest.raises(Unavailable, match="cannot be read at the moment"):
        await minutes.world.usage.usage(query)
    assert await minutes.step() == [], "nothing goes while blocks do not have it"
    await minutes.it.blocks()
    await minutes.ask()
    await minutes.total()
    assert await minutes.step()
    assert await minutes.stored() == 0
    await minutes.ask()
    await minutes.total()


async def test_an_answer_that_saw_the_notice_come_is_not_given(minutes: Minutes) -> None:
    """It was planned before, and read by minute what may be gone."""
    meter = await minutes.it.meter("sum")
    snapshot = BlockSnapshot(SqlBlockLedger(minutes.world.database), minutes.world.log.number)
    planned = await snapshot.coverage({meter.revision})
    await snapshot.confirm(planned, {meter.revision})
    await minutes.step()
    with pytest.raises(Unavailable, match="ask again"):
        await snapshot.confirm(planned, {meter.revision})
    again = await snapshot.coverage({meter.revision})
    assert again.dropped
    await snapshot.confirm(again, {meter.revision})


async def test_a_changed_meter_takes_over_from_where_minutes_are_kept(minutes: Minutes) -> None:
    await minutes.dropped()
    change = MeterChange(value_property="$['v']")
    await minutes.it.catalogue.update_meter("default", "sum", change, minutes.it.now_ms)
    await minutes.it.count()
    (number,) = await minutes.it.catalogue.filling()
    assert await minutes.it.catalogue.switch_filled(number, minutes.it.now_ms) is not None
    await minutes.it.blocks()
    changed = await minutes.it.meter("sum")
    assert changed.effective_from_ms is not None
    assert changed.effective_from_ms >= minutes.february_ms
    await minutes.ask()
    await minutes.total()


async def test_a_block_is_swept_and_merged_after_the_drop(minutes: Minutes) -> None:
    await minutes.dropped()
    for _ in range(3):
        await minutes.send((0, 118 * DAY_MS))
        await minutes.it.blocks()
        minutes.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
        await minutes.it.sweep()
        await minutes.ask(10)
    await minutes.total()


async def test_dropped_hours_of_an_erased_subject_are_told_under_its_pseudonym(
    minutes: Minutes,
) -> None:
    """Its minutes go after they were copied, and before blocks are made under the pseudonym."""
    await minutes.step()
    minutes.world.clock.at_ms += RETENTION_NOTICE_MS
    connection, dropped = minutes.world.usage.connection, list[Period]()

    async def look() -> None:
        if dropped:
            return
        copies = "SELECT count() FROM tallies WHERE log = {log:UInt16} AND subject LIKE 'erased-%'"
        ((there,),) = await connection.query(copies, {"log": minutes.world.log.number})
        if there:
            dropped.extend(await minutes.step())
            await minutes.total()

    erased = await minutes.erased("s1", look)
    assert (erased.state, await minutes.stored()) == (ErasureState.SETTLED, 0)
    await minutes.ask(MANY)
    await minutes.send((0, 118 * DAY_MS))  # its name is that of a new customer
    await minutes.it.blocks()
    minutes.world.clock.at_ms += BLOCK_KEPT_MS + BLOCK_MAKING_MS
    await minutes.it.sweep()
    minutes.it.read()
    await minutes.ask(MANY)
    await minutes.total()
    assert minutes.answers > minutes.refusals > 0
