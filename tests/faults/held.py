"""Faults that are held until the alert that names them fires, one of each kind: then they end, and
the alert must be silent again. Real rules, real times: some minutes each.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.faults.alarms import FIRES_WITHIN_S
from tests.faults.bench import Bench
from tests.faults.kills import stands
from tests.faults.proxy import Mode
from tests.faults.watch import Alarmed, Watch
from tests.journey.deadline import until

Held = Callable[[Bench], AbstractContextManager[None]]

KNOWN_WITHIN_S: Final = 60.0
LOOKED_EVERY_S: Final = 5.0
CLEARS_WITHIN_S: Final = 420.0  # rules look back for up to five minutes


@contextmanager
def _killed(bench: Bench) -> Iterator[None]:
    slot = bench.product.those("aggregator")[0]
    bench.bites.book("ran when it was killed", slot.kill())
    slot.start()
    yield


@contextmanager
def _down(bench: Bench) -> Iterator[None]:
    slot = bench.product.those("aggregator")[0]
    bench.bites.book("ran when it was killed", slot.kill())
    yield
    slot.start()


@contextmanager
def _frozen(bench: Bench) -> Iterator[None]:
    slot = bench.product.those("dispatcher")[0]
    slot.freeze()
    yield
    bench.bites.book("stood still", stands(slot.service.pid))
    slot.thaw()


@contextmanager
def _without_kafka(bench: Bench) -> Iterator[None]:
    bench.servers.kafka.kill()
    bench.bites.book("the server was killed")
    yield
    bench.servers.kafka.start()


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
    "postgres refuses": _away("postgres", Mode.REFUSE),
    "kafka killed and restarted": _without_kafka,
    "aggregator-2 frozen for 8 seconds": _frozen,
    "log restored to an older state": _down,
}


def held(bench: Bench, watch: Watch, name: str) -> Alarmed:
    """Bring a fault about and hold it until its alert fires, or for as long as it may take; after
    it, wait until the alert is silent, and compare as after every fault.
    """
    until("every process was scraped", KNOWN_WITHIN_S, watch.knows_all)
    began_s = time.monotonic()

    def so_far() -> Alarmed:
        return watch.alarmed((name, began_s, time.monotonic()))

    def fault(at: Bench) -> None:
        with HELD[name](at):
            while so_far().fired_s is None and time.monotonic() - began_s < FIRES_WITHIN_S:
                time.sleep(LOOKED_EVERY_S)

    try:
        bench.under(name, fault)
    except AssertionError as error:
        error.add_note(f"--- meanwhile\n{so_far().words}")
        raise
    found = so_far()
    while found.fired_s is not None and found.cleared_s is None:
        if time.monotonic() - began_s > FIRES_WITHIN_S + CLEARS_WITHIN_S:
            break
        time.sleep(LOOKED_EVERY_S)
        found = so_far()
    return found
