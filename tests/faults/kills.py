"""Faults that kill: at labelled steps, at random moments, one process after the other."""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil

from tests.faults.bench import Bench
from tests.faults.labels import AGGREGATOR, DISPATCHER, Act, Label, Trap
from tests.faults.slot import Slot
from tests.services.local import LocalService
from tests.services.service import Service

Fault = Callable[[Bench], None]

TRAPPED_WITHIN_S = 90.0  # on a machine that does much else
ALIVE_S = (1.0, 6.0)  # how long a process lives before it is killed at random


def aggregators_at(label: Label, kills: int) -> Fault:
    """Both aggregators die at a step, again and again, each as soon as it is there again."""

    def fault(bench: Bench) -> None:
        slots = bench.product.those("aggregator")
        plans = [
            [Trap(label, bench.rng.randint(1, AGGREGATOR[label])) for _ in range(kills)]
            for _ in slots
        ]
        with ThreadPoolExecutor(len(slots)) as threads:
            died = list(threads.map(_chain, slots, plans))
        _book(bench, label, died, 2 * kills)

    return fault


def dispatcher_at(label: Label, kills: int) -> Fault:
    """The dispatcher dies at a step over new runs, again and again."""

    def fault(bench: Bench) -> None:
        bench.rig.ask(2 * kills)
        slot = bench.product.those("dispatcher")[0]
        traps = [Trap(label, bench.rng.randint(1, DISPATCHER[label])) for _ in range(kills)]
        _book(bench, label, [_chain(slot, traps)], kills)

    return fault


def aggregators_at_each(labels: Iterable[Label]) -> Fault:
    """One death at every step, half of them each aggregator's."""

    def fault(bench: Bench) -> None:
        drawn = list(labels)
        bench.rng.shuffle(drawn)
        slots = bench.product.those("aggregator")
        plans = [[Trap(label, 1) for label in drawn[n :: len(slots)]] for n in range(len(slots))]
        with ThreadPoolExecutor(len(slots)) as threads:
            died = [trap for found in threads.map(_died, slots, plans) for trap in found]
        _book_each(bench, drawn, died, len(slots))

    return fault


def dispatcher_at_each(labels: Iterable[Label]) -> Fault:
    """One death at every step, each as soon as it is there again."""

    def fault(bench: Bench) -> None:
        drawn = list(labels)
        bench.rig.ask(2 * len(drawn))
        slot = bench.product.those("dispatcher")[0]
        _book_each(bench, drawn, _died(slot, [Trap(label, 1) for label in drawn]), 1)

    return fault


def _book_each(bench: Bench, labels: Sequence[Label], died: Sequence[Trap], begun: int) -> None:
    missed = set(labels) - {trap.label for trap in died}
    assert not missed, f"no process died at {sorted(label.value for label in missed)}"
    bench.kills.update(label.value for label in labels)
    bench.bites.book("died in its trap", len(died))
    bench.kills["at random"] += begun


def _chain(slot: Slot, traps: Sequence[Trap]) -> int:
    """One life after the other; how many ended in their trap."""
    return len(_died(slot, traps))


def _died(slot: Slot, traps: Sequence[Trap]) -> list[Trap]:
    """One life after the other; the traps that they ended in."""
    died = []
    slot.kill()
    for trap in traps:
        slot.start(trap.environment)
        if slot.dies_of(trap, TRAPPED_WITHIN_S):
            died.append(trap)
        slot.kill()
    slot.start()
    return died


def _book(bench: Bench, label: Label, died: Sequence[int], planned: int) -> None:
    bench.kills[label.value] += sum(died)
    bench.kills["at random"] += len(died)  # each chain begins with one
    missed = planned - sum(died)
    if missed:
        bench.kills["at random"] += missed
        bench.notes.append(f"{missed} of {planned} did not come to the step in time")
    bench.bites.book(f"died in its trap: {label.value}", sum(died))


def filled_in(kills: int) -> Fault:
    """An aggregator dies when it has filled a slice into a new meter, again and again: each time
    another meter is made, so that there is something to fill in.
    """

    def fault(bench: Bench) -> None:
        slots = bench.product.those("aggregator")
        trap = Trap(Label.FILLED, 1)
        died = 0
        for number in range(kills):
            slot = slots[number % len(slots)]
            slot.kill()
            slot.start(trap.environment)
            bench.twin("amounts")
            died += slot.dies_of(trap, TRAPPED_WITHIN_S)
            slot.kill()
            slot.start()
        _book(bench, Label.FILLED, [died], kills)

    return fault


def stands(process_id: int) -> bool:
    """Whether a process is stopped."""
    return psutil.Process(process_id).status() == psutil.STATUS_STOPPED


def answers(url: str) -> bool:
    """Whether somebody listens at the address of a server."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    try:
        socket.create_connection((parts.hostname, parts.port), 1).close()
    except OSError:
        return False
    return True


def killed_at_random(places: Sequence[str], kills: int) -> Fault:
    """Processes are killed at any moment, and started again at once."""

    def fault(bench: Bench) -> None:
        for _ in range(kills):
            slot = bench.product.slots[bench.rng.choice(places)]
            time.sleep(bench.rng.uniform(*ALIVE_S))
            bench.bites.book("ran when it was killed", slot.kill())
            slot.start()
            bench.kills[f"{slot.name[:-2]} at random"] += 1

    return fault


def doors_killed(kills: int) -> Fault:
    """A gateway dies with requests under way; senders go to the other one."""

    def fault(bench: Bench) -> None:
        first = bench.senders.tally.broken
        for number in range(kills):
            slot = bench.product.those("gateway")[number % 2]
            slot.ready()
            before = bench.senders.tally.broken
            time.sleep(bench.rng.uniform(0.1, 1.0))
            slot.kill()
            time.sleep(0.3)
            bench.kills["gateway under load"] += 1
            slot.start()
            cut = bench.senders.tally.broken - before
            bench.notes[:] = [f"{cut} requests were cut off by the last one"]
        bench.bites.book("requests cut off", bench.senders.tally.broken - first)
        for slot in bench.product.those("gateway"):
            slot.ready()

    return fault


def server_killed(name: str, away_s: float = 0.0) -> Fault:
    """A server dies, and comes back on its data."""

    def fault(bench: Bench) -> None:
        server: Service = getattr(bench.servers, name)
        time.sleep(bench.rng.uniform(0.5, 2.0))
        server.kill()
        bench.kills[server.name] += 1
        time.sleep(away_s)
        bench.bites.book("the server was away", not answers(server.url))
        server.start()

    return fault


def frozen_at(place: str, stand_in: str, label: Label, seconds: float) -> Fault:
    """A process stands still at a step while another one takes over; then it goes on."""

    def fault(bench: Bench) -> None:
        slot, other = bench.product.slots[place], bench.product.slots[stand_in]
        if label in DISPATCHER:
            bench.rig.ask(4)
        steps = {**AGGREGATOR, **DISPATCHER}
        trap = Trap(label, bench.rng.randint(1, steps[label]), Act.FREEZE)
        slot.kill()
        bench.kills["at random"] += 1
        slot.start(trap.environment)
        assert slot.freezes_by(trap, TRAPPED_WITHIN_S), f"{place} did not come to {label.value!r}"
        bench.bites.book(f"stood still in its trap: {label.value}")
        other.start()
        time.sleep(seconds)
        slot.thaw()
        time.sleep(3)  # what it held in its hands is written now

    return fault


def frozen(place: str, seconds: float) -> Fault:
    """A process stands still at any moment, and goes on."""

    def fault(bench: Bench) -> None:
        slot = bench.product.slots[place]
        time.sleep(bench.rng.uniform(*ALIVE_S))
        slot.freeze()
        time.sleep(seconds)
        bench.bites.book("stood still", stands(slot.service.pid))
        slot.thaw()

    return fault


def broker_frozen(seconds: float) -> Fault:
    """The broker does not answer for a while: neither refused nor closed."""

    def fault(bench: Bench) -> None:
        kafka = bench.servers.kafka
        assert isinstance(kafka, LocalService), "only a process can be frozen"
        time.sleep(1)
        kafka.freeze()
        time.sleep(seconds)
        bench.bites.book("stood still", stands(kafka.pid))
        kafka.thaw()

    return fault


def coming_and_going(times: int, every_s: tuple[float, float]) -> Fault:
    """A third aggregator joins and leaves, in good order and not, every few seconds."""

    def fault(bench: Bench) -> None:
        slot = bench.product.slots["aggregator-3"]
        for number in range(times):
            slot.start()
            slot.ready()
            bench.bites.book("joined")
            time.sleep(bench.rng.uniform(*every_s))
            if number % 3 == 2:
                slot.kill()
                bench.kills["aggregator at random"] += 1
            else:
                slot.stop()
            time.sleep(bench.rng.uniform(*every_s) / 2)

    return fault
