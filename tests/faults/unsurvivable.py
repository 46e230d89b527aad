"""What cannot be survived: records that are gone, a topic that is another one. Counting must stop
with words that say what to do, and nothing more may be lost: what was counted stays, and goes on
counting once the operator has said so.
"""

import asyncio
import json
import random
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from meterline.backends.kafka.log import TOPIC_LOOK_S
from tests.faults.bench import Bench
from tests.faults.erasing import stores
from tests.faults.events import METERS, event
from tests.faults.installation import PARTITIONS, Servers, installed, make_meters
from tests.faults.oracle import Oracle
from tests.faults.senders import UNKNOWN, Senders
from tests.faults.settled import Rig
from tests.faults.slot import Slot
from tests.journey.deadline import until
from tests.journey.everywhere import sealed_ends
from tests.journey.processes import run_command
from tests.journey.receiver import Receiver
from tests.nursery.forked import ROOT
from tests.services.kafka import local_kafka
from tests.services.service import ServiceError

Ends = Callable[[Servers, Path], str]

FIRST, LOST, LATER = 1_500, 600, 900  # events before, in between, and afterwards
STOPS_WITHIN_S: Final = 90.0
COUNTED_WITHIN_S: Final = 120.0
WORDS: Final = re.compile(r"^meterline: (.*)$", re.MULTILINE)
RUNS: Final = ("gateway-1", "aggregator-1", "control")


@contextmanager
def _counting(servers: Servers, folder: Path) -> Iterator[Bench]:
    """A small installation that has counted its first events."""
    with ExitStack() as stack:
        product = stack.enter_context(installed(servers, folder))
        product.start(*RUNS)
        make_meters(product.api, METERS)
        oracle = Oracle()
        senders = Senders(7, [product.slots["gateway-1"].url], oracle)
        rig = Rig(product.api, Receiver(""))
        bench = Bench(product, senders, oracle, rig, random.Random(7), lambda _: None)
        try:
            _send(bench, 0, FIRST)
            _counted(bench)
            yield bench
        except BaseException as error:
            error.add_note(product.words())
            raise


def _send(bench: Bench, first: int, events: int) -> None:
    """Events by number; they must be taken."""
    numbers = range(first, first + events)
    door = bench.product.slots["gateway-1"].url
    bench.senders.send_all([event(7, number) for number in numbers], door)


def _counted(bench: Bench) -> None:
    """Return when all is counted; it must be what the oracle says."""
    until("zero lag", COUNTED_WITHIN_S, bench.product.caught_up)
    _same(bench)


def _same(bench: Bench) -> None:
    found = list(bench.usage())
    assert not found, f"{len(found)} differences: {found[:5]}"


def words_at_end(slot: Slot) -> str:
    """What a process says when it stops by itself, which it must, with exit code 1."""
    code = until(f"{slot.name} stops", STOPS_WITHIN_S, slot.service.ended)
    found = WORDS.findall(slot.words(100_000))
    assert code == 1, f"{slot.name} ended with code {code}"
    assert found, f"{slot.name} stopped without words:\n{slot.words()}"
    slot.service.kill()
    last: str = found[-1]
    return last


def _asked_of(bench: Bench, act: Callable[[AIOKafkaAdminClient], Awaitable[None]]) -> None:
    """Do something to the broker, as an operator does."""

    async def connected() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bench.servers.kafka.url)
        await admin.start()
        try:
            await act(admin)
        finally:
            await admin.close()

    asyncio.run(connected())


def retention_passed(servers: Servers, folder: Path) -> str:
    """The log drops records that were not counted yet, while no aggregator runs."""
    with _counting(servers, folder) as bench:
        product, aggregator = bench.product, bench.product.slots["aggregator-1"]
        aggregator.kill()
        known = set(bench.oracle.identities)
        gone = Senders(7, bench.senders.doors, Oracle())
        gone.send_all([event(7, FIRST + n) for n in range(LOST)], bench.senders.doors[0])
        ends = {one["partition"]: one["end"] for one in product.status["partitions"]}
        topic = product.settings["METERLINE_LOG_TOPIC"]

        async def drop(admin: AIOKafkaAdminClient) -> None:
            upto = {TopicPartition(topic, n): RecordsToDelete(end) for n, end in ends.items()}
            await admin.delete_records(upto)

        _asked_of(bench, drop)
        accepted: dict[int, int] = {}
        words = ""
        for _ in range(PARTITIONS):  # each is told of by itself
            aggregator.start(_losses(accepted))
            words = words_at_end(aggregator)
            named = re.search(r'losses_accepted to \{"(\d+)": (\d+)\}', words)
            assert named is not None, words
            accepted[int(named[1])] = int(named[2])
            assert bench.oracle.identities == known
            _same(bench)
        aggregator.start(_losses(accepted))
        _send(bench, 0, LATER // 3)  # copies of what was counted: they do not count again
        _send(bench, FIRST + LOST, LATER)
        _counted(bench)
        return words


def _losses(accepted: Mapping[int, int]) -> dict[str, str]:
    return {"METERLINE_LOSSES_ACCEPTED": json.dumps(accepted)}


def topic_made_anew(servers: Servers, folder: Path) -> str:
    """The topic is deleted and made anew under the processes that use it."""
    with _counting(servers, folder) as bench:
        product = bench.product
        topic = product.settings["METERLINE_LOG_TOPIC"]

        async def delete(admin: AIOKafkaAdminClient) -> None:
            await admin.delete_topics([topic])

        _asked_of(bench, delete)
        migrate = {**product.settings, "PYTHONPATH": str(ROOT)}
        until("the topic is there again", 30, lambda: _made_again(product.folder, migrate))
        first = words_at_end(product.slots["aggregator-1"])
        time.sleep(TOPIC_LOOK_S)
        door = product.slots["gateway-1"].url
        answer = bench.senders.posted(door, [event(7, FIRST)])
        assert answer == UNKNOWN, f"a door that knows the old topic answers {answer}"
        for name in ("gateway-1", "control"):
            product.slots[name].kill()
        product.slots["aggregator-1"].start()
        words = words_at_end(product.slots["aggregator-1"])
        named = re.search(r"log_accepted to (\S+?):", words)
        assert named is not None, words
        accepted = {"METERLINE_LOG_ACCEPTED": named[1]}
        for name in RUNS:
            product.slots[name].start(accepted)
        product.slots["gateway-1"].ready()
        product.slots["control"].ready()
        _same(bench)
        _send(bench, FIRST, LATER)
        _counted(bench)
        return f"{first} || and started again: {words}"


def _made_again(folder: Path, settings: Mapping[str, str]) -> bool:
    """Whether `meterline migrate` has made the topic: it refuses to count from an unknown one."""
    try:
        run_command(["migrate"], folder, settings)
    except ServiceError as refused:
        return "has counted another log" in str(refused)
    return False


def log_restored(servers: Servers, folder: Path) -> str:
    """The broker's disk is set back to an older state."""
    return _restored(servers, folder, grown=False)


def log_restored_and_grown(servers: Servers, folder: Path) -> str:
    """As above, and the log has grown past its old end again before anybody looks."""
    return _restored(servers, folder, grown=True)


def _restored(servers: Servers, folder: Path, *, grown: bool) -> str:
    kafka = local_kafka(lambda _: None)
    try:
        kafka.start()
        with _counting(replace(servers, kafka=kafka), folder) as bench:
            product, aggregator = bench.product, bench.product.slots["aggregator-1"]
            kafka.kill()
            shutil.copytree(kafka.folder / "data", kafka.folder / "older")
            kafka.start()
            product.slots["gateway-1"].kill()
            product.start("gateway-1")
            _send(bench, FIRST, LOST)
            _counted(bench)
            if grown:  # it is known by what was sealed since the copy: nothing was before
                until("each partition is sealed", COUNTED_WITHIN_S, lambda: _are_sealed(bench))
            aggregator.kill()
            kafka.kill()
            shutil.rmtree(kafka.folder / "data")
            (kafka.folder / "older").rename(kafka.folder / "data")
            kafka.start()
            if grown:
                product.slots["gateway-1"].kill()
                product.start("gateway-1")
                others = Senders(8, bench.senders.doors, Oracle())
                others.send_all([event(8, n) for n in range(3 * LOST)], bench.senders.doors[0])
            aggregator.start()
            words = words_at_end(aggregator)
            _same(bench)
            aggregator.start()
            again = words_at_end(aggregator)
            assert _numberless(again) == _numberless(words), f"{again!r}, before: {words!r}"
            _same(bench)
            return words
    finally:
        kafka.stop()


def _are_sealed(bench: Bench) -> bool:
    """Whether each partition has sealed a slice."""
    return len(asyncio.run(sealed_ends(*stores(bench)))) == PARTITIONS


def _numberless(words: str) -> str:
    """Without the partition, which is any of them, and its offsets."""
    return re.sub(r"\d+", "#", words)


ENDS: Final[Mapping[str, Ends]] = {
    "retention passes the lag": retention_passed,
    "topic made anew": topic_made_anew,
    "log restored to an older state": log_restored,
    "log restored, and grown past its old end": log_restored_and_grown,
}
