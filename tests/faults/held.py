"""Faults that are held until the alert that names them fires, some of each kind: then they end, and
the alert must be silent again. Real rules, real times: some minutes each.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.faults.alarms import FIRES_WITHIN_S
from tests.faults.bench import DRAINED_WITHIN_S, Bench
from tests.faults.kills import stands
from tests.faults.proxy import Mode
from tests.faults.unsurvivable import words_at_end
from tests.faults.watch import Alarmed, Watch
from tests.journey.deadline import until
from tests.services.local import LocalService
from tests.services.service import Service

Held = Callable[[Bench], AbstractContextManager[None]]

KNOWN_WITHIN_S: Final = 60.0
LOOKED_EVERY_S: Final = 5.0
CLEARS_WITHIN_S: Final = 420.0  # rules look back for up to five minutes
GROWS_FOR_S: Final = 8.0  # so that each partition has records beyond the copy of the log


@contextmanager
def _killed(bench: Bench) -> Iterator[None]:
    slot = bench.product.those("aggregator")[0]
    bench.bites.book("ran when it was killed", slot.kill())
    slot.start()
    yield


def _frozen(place: str) -> Held:
    @contextmanager
    def frozen(bench: Bench) -> Iterator[None]:
        slot = bench.product.slots[place]
        slot.freeze()
        yield
        bench.bites.book("stood still", stands(slot.service.pid))
        slot.thaw()

    return frozen


def _without(name: str) -> Held:
    @contextmanager
    def without(bench: Bench) -> Iterator[None]:
        server: Service = getattr(bench.servers, name)
        server.kill()
        bench.bites.book("the server was killed")
        yield
        server.start()

    return without


@contextmanager
def _silent_kafka(bench: Bench) -> Iterator[None]:
    kafka = _local_kafka(bench)
    kafka.freeze()
    yield
    bench.bites.book("stood still", stands(kafka.pid))
    kafka.thaw()


def _copy_log(bench: Bench) -> None:
    """The broker's disk is copied, and the log grows beyond the copy; all of it is counted."""
    kafka = _local_kafka(bench)
    bench.settle()
    kafka.kill()
    shutil.copytree(kafka.folder / "data", kafka.folder / "older")
    kafka.start()
    bench.senders.resume()
    time.sleep(GROWS_FOR_S)
    bench.settle()


@contextmanager
def _log_restored(bench: Bench) -> Iterator[None]:
    """The broker has the older disk, on which nobody writes; then it gets its own back."""
    kafka, aggregators = _local_kafka(bench), bench.product.those("aggregator")
    bench.senders.drain(DRAINED_WITHIN_S)
    for slot in aggregators:
        slot.kill()
    _put_disk(kafka, "older", "newer")
    for slot in aggregators:
        slot.start()
    for slot in aggregators:
        words = words_at_end(slot)
        bench.notes.append(f"{slot.name} said: {words}")
        bench.bites.book("said that the log is an older one", "the log ends at offset" in words)
    yield
    _put_disk(kafka, "newer", "older")


def _put_disk(kafka: LocalService, brought: str, taken: str) -> None:
    kafka.kill()
    (kafka.folder / "data").rename(kafka.folder / taken)
    (kafka.folder / brought).rename(kafka.folder / "data")
    kafka.start()


def _local_kafka(bench: Bench) -> LocalService:
    kafka = bench.servers.kafka
    assert isinstance(kafka, LocalService), "only a local one has a disk that can be copied"
    return kafka


def _away(name: str, mode: Mode) -> Held:
    @contextmanager
    def away(bench: Bench) -> Iterator[None]:
        proxy = bench.product.proxies[name]
        hit = proxy.hit
        with proxy.being(mode):
            yield
        bench.bites.book(f"connections met by {mode.value}", proxy.hit - hit)

    return away


# By the name of a fault of `tests.faults.cases` or `tests.faults.unsurvivable` of the same kind.
HELD: Final[Mapping[str, Held]] = {
    "processes killed at random": _killed,
    "clickhouse hangs": _away("clickhouse", Mode.HANG),
    "clickhouse refuses": _away("clickhouse", Mode.REFUSE),
    "clickhouse resets": _away("clickhouse", Mode.RESET),
    "clickhouse killed and restarted": _without("clickhouse"),
    "postgres hangs": _away("postgres", Mode.HANG),
    "postgres refuses": _away("postgres", Mode.REFUSE),
    "postgres resets": _away("postgres", Mode.RESET),
    "postgres killed and restarted": _without("postgres"),
    "kafka killed and restarted": _without("kafka"),
    "kafka silent for 30 seconds": _silent_kafka,
    "aggregator-2 frozen for 8 seconds": _frozen("aggregator-2"),
    "dispatcher-1 frozen for a minute: run materialized": _frozen("dispatcher-1"),
    "log restored to an older state": _log_restored,
}
# What has to be there before a fault, and is no part of it.
BEFORE: Final[Mapping[str, Callable[[Bench], None]]] = {
    "log restored to an older state": _copy_log,
}


def held(
    bench: Bench, watch: Watch, name: str, pause: Callable[[float], None] = time.sleep
) -> Alarmed:
    """Bring a fault about and hold it until its alert fires, or for as long as it may take; after
    it, compare as after every fault, and `pause` until the alert is silent.
    """
    until("every process was scraped", KNOWN_WITHIN_S, watch.knows_all)
    if name in BEFORE:
        BEFORE[name](bench)
    began_s = time.monotonic()

    def so_far() -> Alarmed:
        return watch.alarmed((name, began_s, time.monotonic()))

    def fault(at: Bench) -> None:
        with HELD[name](at):
            while so_far().fired_s is None and time.monotonic() - began_s < FIRES_WITHIN_S:
                time.sleep(LOOKED_EVERY_S)

    try:
        bench.under(name, watch.spanned(name, fault))
    except AssertionError as error:
        error.add_note(f"--- meanwhile\n{so_far().words}")
        raise
    found = so_far()
    while found.fired_s is not None and found.cleared_s is None:
        if time.monotonic() - began_s > FIRES_WITHIN_S + CLEARS_WITHIN_S:
            break
        pause(LOOKED_EVERY_S)
        found = so_far()
    return found
