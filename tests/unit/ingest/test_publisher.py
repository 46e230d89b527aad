"""The publisher over a log in memory whose appends end when the test says so."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.publisher import Publisher
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.event import Layout, Record, RecordKind
from meterline.limits import PACK_EVENTS_MAX
from meterline.ports import Unavailable
from meterline.problem import Problem, ProblemType
from tests.unit.backends.telemetry.test_prometheus import values


@dataclass(slots=True)
class HandClock:
    """A clock that stands until it is moved."""

    at_ms: int = 0

    def now_ms(self) -> int:
        return self.at_ms


@dataclass(slots=True)
class MemoryLog:
    """A log in memory. `arrive` is awaited before an append is done; it may raise."""

    partitions: int = 4
    routes: int = 4
    id: str = "memory"
    number: int = 1
    arrive: Callable[[int], Awaitable[None]] | None = None
    packs: list[tuple[int, list[str]]] = field(default_factory=list)
    closed: bool = False

    async def append(
        self, partition: int, value: bytes, kind: RecordKind = RecordKind.PACK
    ) -> None:
        assert kind is RecordKind.PACK
        if self.arrive is not None:
            await self.arrive(partition)
        self.packs.append((partition, msgspec.json.decode(value, type=list[str])))

    async def read(self, partition: int, offset: int, records_max: int) -> list[Record]:
        found = [pack for where, pack in self.packs if where == partition]
        return [
            Record(partition, place, 0, RecordKind.PACK, msgspec.json.encode(pack), self.id)
            for place, pack in enumerate(found)
        ][offset : offset + records_max]

    async def begin(self, partition: int) -> int:  # noqa: ARG002 - of the port
        return 0

    async def end(self, partition: int) -> int:
        return sum(where == partition for where, _ in self.packs)

    async def trim(self, partition: int, before: int, older_than_ms: int) -> None:
        raise AssertionError(f"nobody trims {partition} to {before}, {older_than_ms}")

    async def close(self) -> None:
        self.closed = True

    def lay_out(self, layout: Layout) -> None:
        raise AssertionError(f"nobody lays it out as {layout}")

    def home(self, partition: int, offset: int) -> int:
        raise AssertionError(f"nobody asks for the home of {partition}/{offset}")


def events(partition: int, *names: str) -> list[tuple[int, bytes]]:
    """Events of one partition; a text is any JSON here."""
    return [(partition, msgspec.json.encode(name)) for name in names]


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_idle_publisher_does_not_wait() -> None:
    log = MemoryLog()
    publisher = Publisher(log, HandClock())
    await publisher.publish(events(1, "a") + events(3, "b", "c"))
    assert sorted(log.packs) == [(1, ["a"]), (3, ["b", "c"])]
    assert publisher.pending_bytes == 0
    await publisher.publish([])
    assert len(log.packs) == 2


async def test_what_comes_while_a_lane_is_busy_goes_together() -> None:
    gate = asyncio.Event()

    async def wait(_: int) -> None:
        await gate.wait()

    log = MemoryLog(arrive=wait)
    publisher = Publisher(log, HandClock())
    first = asyncio.create_task(publisher.publish(events(0, "a")))
    await settle()
    others = [asyncio.create_task(publisher.publish(events(0, name))) for name in "bcd"]
    await settle()
    assert log.packs == []
    assert not first.done()
    gate.set()
    await asyncio.gather(first, *others)
    assert log.packs == [(0, ["a"]), (0, ["b", "c", "d"])]


async def test_what_went_by_fewer_partitions_than_there_are_is_not_told_to_be_stored() -> None:
    async def grow(_: int) -> None:
        log.routes = 12

    log = MemoryLog(arrive=grow)
    publisher = Publisher(log, HandClock())
    with pytest.raises(Problem) as caught:
        await publisher.publish(events(1, "a"))
    assert caught.value.type is ProblemType.UNAVAILABLE
    assert publisher.partitions == 12
    await publisher.publish(events(11, "a"))
    with pytest.raises(Problem):  # it was admitted before, and waited
        await publisher.publish(events(1, "b"), partitions=4)
    assert publisher.pending_bytes == 0


async def test_a_request_is_answered_when_all_its_partitions_are_durable() -> None:
    gates = {0: asyncio.Event(), 1: asyncio.Event()}

    async def wait(partition: int) -> None:
        await gates[partition].wait()

    publisher = Publisher(MemoryLog(arrive=wait), HandClock())
    request = asyncio.create_task(publisher.publish(events(0, "a") + events(1, "b")))
    gates[0].set()
    await settle()
    assert not request.done()
    assert publisher.pending_bytes == len(b'"b"')
    gates[1].set()
    await request


async def test_a_failed_append_is_not_known_to_be_in() -> None:
    async def fail(partition: int) -> None:
        if partition == 2:
            raise Unavailable("the broker is away")

    log = MemoryLog(arrive=fail)
    publisher = Publisher(log, HandClock())
    with pytest.raises(Problem, match="may or may not") as caught:
        await publisher.publish(events(2, "a") + events(0, "b"))
    assert caught.value.type is ProblemType.UNAVAILABLE
    assert caught.value.retry_after_s
    await publisher.close()
    assert publisher.pending_bytes == 0
    await publisher.publish(events(0, "c"))
    assert (0, ["c"]) in log.packs


@pytest.mark.parametrize("packs", [1, 2])
async def test_nobody_waits_for_an_append_that_was_cancelled(packs: int) -> None:
    gate = asyncio.Event()

    async def give_up(_: int) -> None:
        await gate.wait()
        raise asyncio.CancelledError

    log = MemoryLog(arrive=give_up)
    publisher = Publisher(log, HandClock())
    some = events(2, *map(str, range(packs * PACK_EVENTS_MAX)))
    sent = [asyncio.create_task(publisher.publish(some))]
    await settle()
    sent.append(asyncio.create_task(publisher.publish(events(2, "b"))))
    await settle()
    gate.set()
    for outcome in await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 20):
        assert isinstance(outcome, Problem)
        assert outcome.type is ProblemType.UNAVAILABLE
    assert publisher.pending_bytes == 0
    log.arrive = None
    await publisher.publish(events(2, "c"))
    assert log.packs == [(2, ["c"])]


async def test_an_error_of_our_own_stays_one() -> None:
    async def break_down(_: int) -> None:
        raise ValueError("a bug")

    publisher = Publisher(MemoryLog(arrive=break_down), HandClock())
    with pytest.raises(ValueError, match="a bug"):
        await publisher.publish(events(0, "a"))


@pytest.mark.parametrize(("passed_ms", "told"), [(10_000, True), (10_001, False)])
async def test_no_success_is_told_behind_the_deadline(passed_ms: int, told: bool) -> None:
    clock = HandClock(1_000)

    async def stand_still(_: int) -> None:
        clock.at_ms += passed_ms - 400  # the process was stopped, and every timeout with it

    log = MemoryLog(arrive=stand_still)
    publisher = Publisher(log, clock)
    recorded_ms = clock.at_ms - 400
    if told:
        await publisher.publish(events(0, "a"), recorded_ms)
    else:
        with pytest.raises(Problem, match="may or may not"):
            await publisher.publish(events(0, "a"), recorded_ms)
    assert log.packs == [(0, ["a"])], "it may be there all the same"


async def test_events_that_waited_too_long_are_not_sent_at_all() -> None:
    gate = asyncio.Event()

    async def wait(_: int) -> None:
        await gate.wait()

    clock = HandClock()
    log = MemoryLog(arrive=wait)
    publisher = Publisher(log, clock, waiting_ms_max=5_000)
    first = asyncio.create_task(publisher.publish(events(0, "a")))
    await settle()
    late = asyncio.create_task(publisher.publish(events(0, "b")))
    await settle()
    clock.at_ms += 3_000
    fresh = asyncio.create_task(publisher.publish(events(0, "c")))
    await settle()
    clock.at_ms += 3_000
    gate.set()
    await asyncio.gather(first, fresh)
    with pytest.raises(Problem, match="may or may not"):
        await late
    assert log.packs == [(0, ["a"]), (0, ["c"])]


async def test_more_than_there_is_room_for_is_refused_and_not_in() -> None:
    gate = asyncio.Event()

    async def wait(_: int) -> None:
        await gate.wait()

    log = MemoryLog(arrive=wait)
    publisher = Publisher(log, HandClock(), pending_bytes_max=10)
    held = asyncio.create_task(publisher.publish(events(0, "12345678")))
    await settle()
    with pytest.raises(Problem, match="Too many events are waiting") as caught:
        await publisher.publish(events(1, "x"))
    assert caught.value.type is ProblemType.UNAVAILABLE
    gate.set()
    await held
    await publisher.publish(events(1, "x"))


async def test_a_large_request_goes_in_full_packs() -> None:
    log = MemoryLog(partitions=1)
    names = [str(number) for number in range(2 * PACK_EVENTS_MAX + 1)]
    await Publisher(log, HandClock()).publish(events(0, *names))
    assert [len(pack) for _, pack in log.packs] == [PACK_EVENTS_MAX, PACK_EVENTS_MAX, 1]
    assert [name for _, pack in log.packs for name in pack] == names


async def test_closing_waits_for_what_is_pending() -> None:
    async def wait(_: int) -> None:
        await asyncio.sleep(0.01)

    log = MemoryLog(arrive=wait)
    publisher = Publisher(log, HandClock())
    request = asyncio.create_task(publisher.publish(events(0, "a")))
    await settle()
    await publisher.close()
    assert log.packs == [(0, ["a"])]
    await request


REQUESTS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**6).map(str)), max_size=6),
    max_size=12,
)


@given(REQUESTS, st.lists(st.integers(0, 3), max_size=40))
@settings(max_examples=150, deadline=None)
def test_every_event_of_an_answered_request_is_in_exactly_once(
    requests: list[list[tuple[int, str]]], failures: list[int]
) -> None:
    """Whatever fails in between: what was answered well is in, and nothing is in twice."""
    left = iter(failures)

    async def sometimes(_: int) -> None:
        await asyncio.sleep(0)
        if next(left, 3) == 0:
            raise Unavailable("now and then")

    async def run() -> None:
        log = MemoryLog(arrive=sometimes)
        publisher = Publisher(log, HandClock())
        named = [
            [(partition, f"{number}.{place}") for place, (partition, _) in enumerate(request)]
            for number, request in enumerate(requests)
        ]
        outcomes = await asyncio.gather(
            *(
                publisher.publish([(p, msgspec.json.encode(name)) for p, name in request])
                for request in named
            ),
            return_exceptions=True,
        )
        await publisher.close()
        held = [(partition, name) for partition, pack in log.packs for name in pack]
        assert len(set(held)) == len(held)
        for request, outcome in zip(named, outcomes, strict=True):
            assert outcome is None or isinstance(outcome, Problem)
            if outcome is None:
                assert set(request) <= set(held)
        assert publisher.pending_bytes == 0

    asyncio.run(run())


async def test_it_tells_how_many_events_went_in_and_how_full_packs_are() -> None:
    recorder = PrometheusRecorder("ingest")
    publisher = Publisher(MemoryLog(), HandClock(), recorder=recorder)
    names = [str(number) for number in range(PACK_EVENTS_MAX + 7)]
    await publisher.publish(events(0, *names) + events(1, "a"))
    told = values(recorder, "meterline_ingest_events_total")
    assert told["accepted",] == len(names) + 1
    assert values(recorder, "meterline_ingest_pack_events_sum") == {(): len(names) + 1}
    assert values(recorder, "meterline_ingest_pack_events_count") == {(): 3}
    assert values(recorder, "meterline_ingest_append_seconds_count") == {(): 2}


async def test_it_tells_of_events_that_may_not_be_stored() -> None:
    async def fail(_: int) -> None:
        raise Unavailable("the log is away")

    recorder = PrometheusRecorder("ingest")
    publisher = Publisher(MemoryLog(arrive=fail), HandClock(), recorder=recorder)
    with pytest.raises(Problem):
        await publisher.publish(events(0, "a", "b", "c"))
    assert values(recorder, "meterline_ingest_events_total")["unavailable",] == 3
    assert values(recorder, "meterline_store_errors_total")["log",] == 1
    assert values(recorder, "meterline_ingest_append_seconds_count") == {(): 0}
