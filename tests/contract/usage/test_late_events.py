"""Contract of `LateEvents`, over chDB and a ClickHouse server."""

from collections.abc import Iterator
from uuid import uuid4

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.usage import Stretch, Touched
from tests.contract.usage.slices import event, folded, meter

MINUTE = 29_453_760  # 2026-01-01T00:00Z


async def test_each_minute_tells_its_last_offset_in_the_stretch(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    one, other = (meter(next(fresh_numbers)) for _ in range(2))
    log = next(fresh_numbers)
    for offset, minutes in ((3, (0, 1)), (4, (1, 1, 7)), (9, (0,)), (12, (2,))):
        events = [
            event(of, offset * 10 + 2 * place + at, f"2026-01-01T00:0{minute}:59.999Z", {"v": 1})
            for place, minute in enumerate(minutes)
            for at, of in enumerate((one, other))
        ]
        flush = folded(log, [one, other], events, offset).take()
        await usage_store.write(flush)
        await usage_store.write(flush)  # a row that is there twice is no other event

    async def touched(first: int, end: int, *types: str) -> set[Touched]:
        named = [("default", name) for name in types]
        found = await usage_store.touched(log, Stretch(0, first, end), named)
        assert len(found) == len(set(found))
        return set(found)

    def at(minute: int, offset: int, name: str = one.event_type) -> Touched:
        return Touched(0, "default", name, MINUTE + minute, offset)

    assert await touched(0, 99, one.event_type) == {at(0, 9), at(1, 4), at(2, 12), at(7, 4)}
    assert await touched(4, 9, one.event_type) == {at(1, 4), at(7, 4)}
    both = await touched(9, 10, one.event_type, other.event_type)
    assert both == {at(0, 9), at(0, 9, other.event_type)}
    assert await touched(5, 9, one.event_type) == set()
    assert await touched(0, 99, uuid4().hex) == set()
    assert await touched(0, 99) == set()
    strangers = [("other", one.event_type)]
    assert await usage_store.touched(log, Stretch(0, 0, 99), strangers) == []
    for nowhere in (Stretch(1, 0, 99), Stretch(0, 13, 99)):
        assert await usage_store.touched(log, nowhere, [("default", one.event_type)]) == []


async def test_only_what_was_appended_so_long_after_its_time_is_late(
    usage_store: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    one, log = meter(next(fresh_numbers)), next(fresh_numbers)
    # appended at 1970-01-01T00:00:01Z, as `folded` has it
    events = [event(one, 1, "1970-01-01T00:00:00.250Z", {"v": 1})]
    await usage_store.write(folded(log, [one], events).take())
    named, stretch = [("default", one.event_type)], Stretch(0, 0, 1)
    found = [Touched(0, "default", one.event_type, 0, 0)]
    assert await usage_store.touched(log, stretch, named, 750) == found
    assert await usage_store.touched(log, stretch, named, 751) == []
    ahead = [event(one, 2, "2099-01-01T00:00:00Z", {"v": 1})]
    await usage_store.write(folded(log, [one], ahead, 1).take())
    stretch = Stretch(0, 1, 2)
    assert await usage_store.touched(log, stretch, named, 0) == []
    assert len(await usage_store.touched(log, stretch, named)) == 1
