"""Faults while a subject is erased. Afterwards no store and no record of the log has its name, its
usage is kept under the pseudonym, and an audit is clean.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from http.client import HTTPException
from typing import Any, Final

from tests.faults.bench import Bench
from tests.faults.events import of_subject
from tests.faults.kills import TRAPPED_WITHIN_S, Fault
from tests.faults.labels import Act, Label, Trap
from tests.journey import setups
from tests.journey.deadline import until
from tests.journey.everywhere import drop_sealed, everywhere
from tests.journey.processes import PROGRAM

V3: Final = "/api/v3/metering"
EVENTS: Final = 120
ACCEPTED: Final = 202
COUNTED_WITHIN_S: Final = 90.0
SETTLED_WITHIN_S: Final = 240.0
DONE_WITHIN_S: Final = 240.0  # a block whose maker was killed is given up first
AUDIT_WITHIN_S: Final = 240
OVER: Final = ("settled", "done")


def while_erased(during: Callable[[Bench, Callable[[], Any]], None]) -> Fault:
    """A subject is erased, and something happens meanwhile: `during` is given what asks for the
    erasure, and returns when it happened.
    """

    def fault(bench: Bench) -> None:
        name = f"to-be-erased-{bench.rng.getrandbits(40):010x}"
        _counted(bench, name)
        asked: list[Any] = []

        def ask() -> Any:
            if not asked:
                answer = bench.product.api.ask("POST", f"{V3}/erasures", {"subject": name})
                assert answer.status == ACCEPTED, f"{answer.status} {answer.body!r}"
                asked.append(answer.json)
            return asked[0]

        during(bench, ask)
        bench.product.mend()
        erasure = ask()
        until("the erasure is settled", SETTLED_WITHIN_S, lambda: _state(bench, erasure) in OVER)
        bench.oracle.erase(name, erasure["pseudonym"])
        _dropped(bench, erasure)
        _judge(
            bench, name
        )  # while nothing comes in: an audit would follow what is sealed meanwhile
        bench.senders.resume()

    return fault


def _counted(bench: Bench, name: str) -> None:
    """Its events are sent and counted: from then on their total stays."""
    assert bench.asker is not None, "somebody asks meanwhile"
    bench.asker.due = None
    door = bench.product.those("gateway")[0].url
    bench.senders.send_all([of_subject(name, number) for number in range(EVENTS)], door)
    due = bench.oracle.total("erased")
    until("its events are counted", COUNTED_WITHIN_S, lambda: _total(bench) == due)
    bench.asker.due = due


def _total(bench: Bench) -> Fraction | None:
    window = {"from": "2026-01-04T00:00:00Z", "to": "2026-01-06T00:00:00Z"}
    answer = bench.product.api.ask("POST", f"{V3}/meters/erased/query", window)
    if answer.status != 200:
        return None
    return sum((Fraction(row["value"]) for row in answer.json["data"]), Fraction(0))


def _state(bench: Bench, erasure: Any) -> str | None:
    """How far it is; None where nobody says so for the moment."""
    try:
        answer = bench.product.api.ask("GET", f"{V3}/erasures/{erasure['id']}")
    except (OSError, HTTPException):
        return None
    return str(answer.json["state"]) if answer.status == 200 else None


def _dropped(bench: Bench, erasure: Any) -> None:
    """The log's retention passes: records are deleted as the broker would do it."""

    def done() -> bool:
        asyncio.run(drop_sealed(*stores(bench)))
        time.sleep(1)
        return _state(bench, erasure) == "done"

    bench.settle()
    until("the erasure is done", DONE_WITHIN_S, done)


def _judge(bench: Bench, name: str) -> None:
    found = [*_found(bench, name)]
    assert not found, f"{name} is still in {found}"
    command = [str(PROGRAM), "audit", "--server", bench.product.api.url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=AUDIT_WITHIN_S
    )
    words = done.stdout + done.stderr
    assert done.returncode == 0, words
    assert "Clean" in words, words


def _found(bench: Bench, name: str) -> Iterator[str]:
    yield from asyncio.run(everywhere(*stores(bench), (name,)))
    for slot in bench.product.slots.values():
        for path in sorted((slot.folder / "seen").rglob("*")):
            if path.is_file() and name.encode() in path.read_bytes():
                yield f"{slot.name}: {path.name}"


def stores(bench: Bench) -> tuple[setups.Servers, str]:
    """The servers, and the name that the topic and the databases have there."""
    servers = bench.servers
    urls = setups.Servers(servers.kafka.url, servers.clickhouse.url, servers.postgres.url)
    return urls, bench.product.settings["METERLINE_LOG_TOPIC"]


def killed_at(label: Label) -> Fault:
    """An aggregator dies at a step of the erasure; both others may go on with it."""

    def during(bench: Bench, ask: Callable[[], Any]) -> None:
        trap = Trap(label, 1)
        slots = bench.product.those("aggregator")
        for slot in slots:
            slot.kill()
            slot.start(trap.environment)
        for slot in slots:
            slot.ready()
        ask()
        until(
            f"an aggregator dies: {label.value}",
            SETTLED_WITHIN_S,
            lambda: any(slot.service.ended() is not None for slot in slots),
        )
        died = sum(slot.dies_of(trap, 1) for slot in slots)
        bench.kills[label.value] += died
        bench.kills["at random"] += len(slots)
        bench.bites.book(f"died in its trap: {label.value}", died)
        for slot in slots:  # without the trap
            slot.kill()
            slot.start()

    return while_erased(during)


def frozen_at(label: Label, seconds: float) -> Fault:
    """An aggregator stands still at a step of the erasure, the other one takes over; then it goes
    on with what it had in its hands.
    """

    def during(bench: Bench, ask: Callable[[], Any]) -> None:
        slot, other = bench.product.slots["aggregator-1"], bench.product.slots["aggregator-2"]
        trap = Trap(label, 1, Act.FREEZE)
        other.kill()
        slot.kill()
        bench.kills["at random"] += 2
        slot.start(trap.environment)
        ask()
        assert slot.freezes_by(trap, TRAPPED_WITHIN_S), f"it did not come to {label.value!r}"
        bench.bites.book(f"stood still in its trap: {label.value}")
        other.start()
        time.sleep(seconds)
        slot.thaw()
        time.sleep(3)  # what it held in its hands is written now

    return while_erased(during)


def beside(fault: Fault) -> Fault:
    """Something else befalls the installation while a subject is erased."""

    def during(bench: Bench, ask: Callable[[], Any]) -> None:
        erasure = ask()
        until("its rows are on their way", SETTLED_WITHIN_S, lambda: _begun(bench, erasure))
        bench.notes.append(f"it was {_state(bench, erasure)} before")
        fault(bench)

    return while_erased(during)


def _begun(bench: Bench, erasure: Any) -> bool:
    return _state(bench, erasure) not in (None, "asked")
