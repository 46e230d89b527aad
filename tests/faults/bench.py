"""A run of faults on one installation: load, faults, and after each of them the oracle's word."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.faults.asking import PAUSE_S, Asker
from tests.faults.bites import Bites
from tests.faults.events import METERS, SETTLED
from tests.faults.installation import Installation, Servers, make_meters
from tests.faults.oracle import Oracle, compared
from tests.faults.senders import Senders
from tests.faults.settled import Rig
from tests.journey.deadline import until
from tests.journey.receiver import Receiver

RATE = 300.0  # events a second
Say = Callable[[str], None]

DRAINED_WITHIN_S = 120.0
COUNTED_WITHIN_S = 240.0
RUNS_WITHIN_S = 120.0
WINDOW = {"from": "2026-01-04T00:00:00Z", "to": "2026-01-06T00:00:00Z"}
SHOWN_MAX = 5


class Differs(AssertionError):
    """Something was lost, or counted twice."""


@dataclass(slots=True)
class Judged:
    """A fault, over."""

    name: str
    kills: int
    to_zero_lag_s: float
    events: int
    words: str = ""


@dataclass(slots=True)
class Bench:
    """An installation under load, and everything that watches it."""

    product: Installation
    senders: Senders
    oracle: Oracle
    rig: Rig
    rng: random.Random
    say: Say
    kills: Counter[str] = field(default_factory=Counter)  # by what was killed, and how
    notes: list[str] = field(default_factory=list)
    bites: Bites = field(default_factory=Bites)
    asker: Asker | None = None
    twins: dict[str, str] = field(default_factory=dict)  # meters made later: key, the key of which

    @property
    def servers(self) -> Servers:
        """Those of a distributed installation."""
        assert self.product.servers is not None, "embedded, there are none"
        return self.product.servers

    def under(self, name: str, fault: Callable[["Bench"], None]) -> Judged:
        """Bring a fault about under load; when it is over, wait for zero lag, and for the reports
        that were asked for, and compare.

        Raises `Differs`, `Toothless` where nothing proves that the fault happened, and
        `AssertionError` where the product does not recover.
        """
        before, answered = self.kills.total(), self._answered
        self.senders.resume()
        with self.bites.proven(name):
            fault(self)
        self.product.mend()
        began_s = time.monotonic()
        self.settle()
        seconds = time.monotonic() - began_s
        if found := [*self.differences(), *self.finish_reports()]:
            raise Differs(f"{name}: {len(found)} differences: {'; '.join(found[:SHOWN_MAX])}")
        if self.asker is not None:
            asked = self._answered - answered
            assert asked, f"{name}: nothing was answered while it happened"
            self.notes.append(f"{asked} answers meanwhile, all of them right")
        notes, self.notes = "; ".join(self.notes), []
        events = len(self.oracle.identities)
        return Judged(name, self.kills.total() - before, seconds, events, notes)

    @property
    def _answered(self) -> int:
        return 0 if self.asker is None else self.asker.answered

    def twin(self, of: str) -> None:
        """Make a meter that measures what another one does, under a key of its own: it is filled
        in from what was counted before.
        """
        (meter,) = (one for one in METERS if one["key"] == of)
        key = f"{of}_twin_{len(self.twins)}"
        make_meters(self.product.api, ({**meter, "key": key, "name": key},))
        self.twins[key] = of

    def send(self, identities: int, within_s: float) -> None:
        """Send until so many identities were acknowledged."""
        self.senders.resume()
        enough = partial(self._has, identities)
        until(f"{identities} identities", within_s, enough)

    def _has(self, identities: int) -> bool:
        return len(self.oracle.identities) >= identities

    def settle(self) -> None:
        """All that was sent is acknowledged, and all that was acknowledged is counted."""
        self.senders.drain(DRAINED_WITHIN_S)
        try:
            until("zero lag", COUNTED_WITHIN_S, self._caught_up)
        except AssertionError as error:
            error.add_note(self.product.words())
            raise

    def _caught_up(self) -> bool:
        for one in self.product.slots.values():
            code = one.service.ended()
            assert code is None, f"{one.name} ended with code {code}:\n{one.words()}"
        return self.product.caught_up()

    def differences(self) -> list[str]:
        """What differs between the oracle and what the product shows, in words."""
        wrong = [] if self.asker is None else self.asker.wrong
        return [*self.senders.failures, *wrong, *self.usage(), *self._account()]

    def usage(self) -> Iterator[str]:
        """What differs in the figures of the meters."""
        own = {str(meter["key"]): str(meter["key"]) for meter in METERS}
        for key, same in (own | self.twins).items():
            asked = {
                **WINDOW,
                "granularity": "PT1H",
                "group_by_dimensions": ["subject", "region"],
            }
            answer = self.product.api.ask("POST", f"/api/v3/metering/meters/{key}/query", asked)
            assert answer.status == 200, f"{key}: {answer.status} {answer.body!r}"
            yield from compared(key, self.oracle.cells(same), answer.json["data"])

    def _account(self) -> Iterator[str]:
        account = self.product.status["account"]
        new, identities = account["new"], len(self.oracle.identities)
        if new != identities:
            yield f"account: {new} new, {identities} identities were acknowledged"
        wrong = account["received"] - sum(account[n] for n in ("new", "duplicate"))
        if wrong:
            yield f"account: {account} has conflicts, invalid or missing events"
        if account["duplicate"] < self.oracle.copies:
            yield f"account: {account['duplicate']} copies of {self.oracle.copies} sent"

    def finish_reports(self) -> list[str]:
        """Wait until every run that was asked for has ended; what is wrong with them."""
        until("every run ends", RUNS_WITHIN_S, lambda: not self.rig.unfinished())
        return list(self.rig.differences())


@contextmanager
def benched(
    product: Installation, receiver: Receiver, seed: int, say: Say, rate: float = RATE
) -> Iterator[Bench]:
    """A bench whose installation runs, with its meters and a settled history."""
    product.start()
    make_meters(product.api, METERS)
    oracle = Oracle()
    doors = [one.url for one in product.those("gateway")]
    with Senders(seed, doors, oracle, rate).running() as senders:
        rig = Rig(product.api, receiver)
        bench = Bench(product, senders, oracle, rig, random.Random(seed), say)
        try:
            senders.send_all(SETTLED, doors[0])
            bench.settle()
            yield bench
        except BaseException as error:
            error.add_note(product.words())
            raise


@contextmanager
def asked_meanwhile(bench: Bench, pause_s: float = PAUSE_S) -> Iterator[None]:
    """During the block somebody asks, whatever happens: no answer may be wrong at any moment."""
    bench.asker = Asker(bench.product.api, bench.oracle, pause_s)
    with bench.asker.asking():
        yield
