"""Gateways and those who send to them: what was acknowledged is written down here only."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ingest.admission import AdmissionRules, BodyForm, admit
from ingest.publisher import Publisher
from meterline.event import RecordKind, Refusal, encode_refusal
from meterline.problem import Problem, ProblemType
from tests.simulation.fates import Fate, Fates
from tests.simulation.log import LogState, SimulatedLog
from tests.simulation.network import Process

Identity = tuple[str, str]  # source, id
BATCH_MAX: Final = 6  # new events of a batch
BITS_MAX: Final = 120  # of a value with 20 + 18 digits: each event has one of its own
SUBJECTS: Final = ("s1", "s2", "s3")
_ODD: Final[tuple[object, ...]] = (None, "x", True, [1], "1e3", "-0.5")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A copy of an event that was answered with success."""

    identity: Identity
    recorded_ms: int


@dataclass(slots=True)
class Ledger:
    """What the senders know."""

    offered: dict[Identity, list[dict[str, Any]]] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refusals: int = 0  # of the log, put there by hand


class Gateway:
    """One life of a gateway: production admission and publisher over the simulated log."""

    def __init__(
        self,
        process: Process,
        log: SimulatedLog,
        fates: Fates,
        substitute: Callable[[Publisher], Any],
    ) -> None:
        self.process = process
        self._fates = fates
        self._publisher = substitute(Publisher(log, process))

    async def post(self, body: bytes) -> int:
        """The instant that the events were recorded at. Raises `Problem` where it is not known
        whether they are durable.
        """
        await self.process.awake()
        recorded_ms = self.process.now_ms()
        rules = AdmissionRules(partitions=self._publisher.partitions)
        admitted = admit(body, BodyForm.BATCH, "default", recorded_ms, rules)
        if self._fates.draw(writes=True) in (Fate.ZOMBIE, Fate.ZOMBIE_AFTER):
            self._fates.note("zombie gateway")
            self.process.stand_still(1 + 5 * self._fates.rng.random())
        await self.process.awake()
        await self._publisher.publish(admitted, recorded_ms, rules.partitions)
        await self.process.awake()
        return recorded_ms


class Senders:
    """Everybody outside. `gateways` are asked for anew each time: they die and come again."""

    def __init__(
        self,
        rng: random.Random,
        gateways: Callable[[], list[Gateway]],
        now_ms: Callable[[], int],
        ledger: Ledger,
        spread_ms: int,
    ) -> None:
        self._rng = rng
        self._gateways = gateways
        self._now_ms = now_ms
        self.ledger = ledger
        self._spread_ms = spread_ms
        self.reported: Callable[[], list[tuple[int, int]]] = list  # windows with decided runs
        self.name_themselves = False  # subjects, in groups
        self._bits = 0
        self._sent: list[dict[str, Any]] = []  # as first made, for repeats
        self._unknown: list[dict[str, Any]] = []
        self._left: dict[str, int] = {}  # events that a sender may still make

    @property
    def events_max(self) -> int:
        """So many events there may be, with those that are still to come."""
        return len(self.ledger.offered) + sum(self._left.values())

    async def send_for(self, events: int, name: str, pause_s: float) -> None:
        """One sender: so many events in batches, what failed again, and some twice."""
        rng = self._rng
        made = 0
        self._left[name] = events + BATCH_MAX - 1  # the last batch may go beyond
        while made < events:
            batch = [
                self._event(f"{name}.{made + i}") for i in range(rng.randrange(1, BATCH_MAX + 1))
            ]
            made += len(batch)
            if self._sent and rng.random() < 0.3:
                batch += [self._copy(rng.choice(self._sent)) for _ in range(rng.randrange(1, 4))]
            if self._unknown and rng.random() < 0.8:
                again, self._unknown = self._unknown, []
                batch += again
            self._sent += batch
            await self._post(batch)
            self._left[name] = events - made + BATCH_MAX - 1 if made < events else 0
            await asyncio.sleep(rng.random() * pause_s)

    def send_to_inbox(self, send: Callable[[dict[str, Any]], int]) -> None:
        """One event by way of the inbox: recorded when it is appended there."""
        rng = self._rng
        again = bool(self._sent) and rng.random() < 0.2
        event = rng.choice(self._sent) if again else self._event(f"inbox.{self._bits}")
        self._sent.append(event)
        identity = (event["source"], event["id"])
        self.ledger.offered.setdefault(identity, []).append(event)
        self.ledger.acknowledged.append(Acknowledged(identity, send(event)))

    async def settle_unknown(self) -> None:
        """Most of what is not known is sent again, until it is."""
        for _ in range(40):
            batch = [e for e in self._unknown if self._rng.random() < 0.9]
            if not batch:
                return
            self._unknown = []
            await self._post(batch)
            await asyncio.sleep(0.05)

    async def _post(self, batch: list[dict[str, Any]]) -> None:
        for event in batch:
            self.ledger.offered.setdefault((event["source"], event["id"]), []).append(event)
        gateway = self._rng.choice(self._gateways())
        text = self._text(batch)
        work = asyncio.ensure_future(gateway.post(text))
        either: set[asyncio.Future[Any]] = {work, gateway.process.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._unknown += batch  # the connection broke
            return
        problem = work.exception()
        if isinstance(problem, Problem) and problem.type is ProblemType.UNAVAILABLE:
            self._unknown += batch
            return
        recorded_ms = work.result()
        self.ledger.acknowledged += [
            Acknowledged((event["source"], event["id"]), recorded_ms) for event in batch
        ]

    def _text(self, batch: list[dict[str, Any]]) -> bytes:
        if self._rng.random() < 0.2:  # a sender with another JSON library
            turned = [dict(reversed(event.items())) for event in batch]
            return json.dumps(turned, indent=1).encode()
        return json.dumps(batch).encode()

    def _bit(self) -> str:
        self._bits += 1
        units = 1 << self._bits if self._bits < BITS_MAX else 0  # a sum is then a set of events
        return f"{units // 10**18}.{units % 10**18:018d}"

    def _event(self, name: str) -> dict[str, Any]:
        rng = self._rng
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": name,
            "source": rng.choice(("one", "two")),
            "type": "t" if rng.random() < 0.8 else "u",
            "subject": SUBJECTS[0] if rng.random() < 0.6 else rng.choice(SUBJECTS),
        }
        if rng.random() < 0.8:
            away_ms = int(rng.gauss(0, self._spread_ms))
            if rng.random() < 0.02:
                away_ms *= 40_000  # years late, or years ahead
            windows = self.reported() if rng.random() < 0.15 else []
            at_ms = rng.randrange(*rng.choice(windows)) if windows else self._now_ms() + away_ms
            event["time"] = _rfc3339(at_ms)
        if rng.random() < 0.97:
            number = rng.choice(_ODD) if rng.random() < 0.15 else rng.randrange(-3, 9)
            event["data"] = {"v": self._bit(), "n": number}
            if rng.random() < 0.7:
                event["data"]["g"] = "a" if rng.random() < 0.8 else "b"
                if self.name_themselves and rng.random() < 0.3:
                    event["data"]["g"] = event["subject"]
        return event

    def _copy(self, event: dict[str, Any]) -> dict[str, Any]:
        if self._rng.random() < 0.8:
            return event
        changed = dict(event)  # the same identity with other bytes: a conflict
        match self._rng.randrange(3):
            case 0:
                changed["subject"] = "s9"
            case 1:
                changed["type"] = "u" if event["type"] == "t" else "t"
            case 2:
                changed["data"] = {**event.get("data", {}), "v": self._bit()}
        return changed


def _rfc3339(at_ms: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return moment.isoformat(timespec="milliseconds")


def poison(state: LogState, rng: random.Random, ledger: Ledger) -> None:
    """Something that is no pack of events lies in the log."""
    partition = rng.randrange(len(state.partitions))
    if rng.random() < 0.3:
        refusal = Refusal("default", "inbox", 0, ledger.refusals, "type", "is missing", "{}")
        state.append(partition, encode_refusal(refusal), RecordKind.REFUSAL)
    else:
        values = (b"\xff\x00", b"{}", b'[1,{"id":3}]', b"[]", b"[[[[")
        state.append(partition, rng.choice(values), RecordKind.PACK)
    ledger.refusals += 1
