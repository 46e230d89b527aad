"""PostgreSQL is killed and comes back: what the door of events says to each key all the while."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from meterline.window import parse_instant, rfc3339
from tests.journey.client import Answer, Server
from tests.journey.deadline import until
from tests.journey.keyed import KEYS, KNOWN_WITHIN_S, Caller, Keyed, event, unknown_token
from tests.journey.processes import role_process, why_silent
from tests.journey.setups import SetUp, command_of
from tests.services.local import LocalService, free_port
from tests.services.service import Service

AWAY_S = 15.5
PAUSE_S = 0.1
ENDS_S = 9  # an overlap and the life of a key, so that both end in the middle
BACK_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """The status of an answer that was given between two instants, in unix milliseconds."""

    after_ms: float
    before_ms: float
    status: int


@dataclass(slots=True)
class Visitor:
    """Who sends an event now and then, and what is said to it. Some keys end at an instant."""

    caller: Caller
    ends_ms: int | None = None
    said: list[Said] = field(default_factory=list)
    sent: list[dict[str, object]] = field(default_factory=list)

    def visit(self, subject: str) -> None:
        """Send one more event."""
        one = event(len(self.sent), subject)
        after_ms = time.time() * 1_000
        status = self.caller.send(one).status
        self.said.append(Said(after_ms, time.time() * 1_000, status))
        self.sent.append(one)

    @property
    def accepted(self) -> int:
        """How many of its events were taken in."""
        return sum(said.status == 202 for said in self.said)


@dataclass(frozen=True, slots=True)
class Latecomer:
    """A door that was opened while PostgreSQL was away: what it said then, and afterwards."""

    alive: Answer
    ready: Answer
    refused: Answer
    accepted: Answer
    ready_then: Answer


@dataclass(frozen=True, slots=True)
class Outage:
    """What was seen: by visitor, who is also the subject of its events, and of the rest."""

    visitors: Mapping[str, Visitor]
    ready: Answer
    not_made: Answer
    latecomer: Latecomer


def late_ingest(setup: SetUp) -> LocalService:
    """One more door for this set-up; its `start` returns as soon as it answers anything."""
    command = command_of("ingest")
    settings = setup.processes["ingest"].environment
    own = role_process("late", command, setup.folder / "late", free_port(), settings)
    return replace(own, problem=partial(why_silent, own.url))


def outage_of(
    admin: Caller, visitors: Mapping[str, Visitor], postgres: Service, late: LocalService
) -> Outage:
    """Kill PostgreSQL for a while, with visitors at the door; it is back on return."""
    known = visitors["known"].caller
    ends_ms = max(visitor.ends_ms or 0 for visitor in visitors.values())
    door = replace(known, ingest=replace(known.ingest, url=late.url))
    with ThreadPoolExecutor(1) as threads:
        postgres.kill()
        try:
            until_s = time.monotonic() + AWAY_S
            early = threads.submit(come_late, door, late)
            is_last = False
            while not is_last:
                is_last = time.monotonic() >= until_s and time.time() * 1_000 > ends_ms
                for name, visitor in visitors.items():
                    visitor.visit(name)
                time.sleep(PAUSE_S)
            ready = known.ingest.ask("GET", "/readyz")
            not_made = admin.control.ask("POST", KEYS, {"name": "x", "scopes": ["events:write"]})
            alive, not_ready, refused = early.result()
        finally:
            postgres.start()
    accepted = until("a late door opens", BACK_WITHIN_S, lambda: taken(door))
    then = door.ingest.ask("GET", "/readyz")
    latecomer = Latecomer(alive, not_ready, refused, accepted, then)
    return Outage(visitors, ready, not_made, latecomer)


def visitors_of(keyed: Keyed, admin: Caller) -> dict[str, Visitor]:
    """Keys of all sorts, of which those that are good are known at the door."""
    sender = ["events:write"]
    replaced = keyed.given(admin, sender)
    visitors = {
        "known": Visitor(keyed.given(admin, sender)),
        "limited": Visitor(keyed.given(admin, sender, plan="tight")),
        "replaced": Visitor(replaced),
    }
    _let_in(visitors)
    # last, for these are to end when the visits have begun
    expires_ms = int(time.time() + ENDS_S) * 1_000
    brief = keyed.given(admin, sender, expires_at=rfc3339(expires_ms))
    current, told = keyed.rotated(admin, replaced.token.key_id, ENDS_S)
    visitors["replaced"].ends_ms = parse_instant(told["previous_secret_until"])
    ending = {"current": Visitor(current), "brief": Visitor(brief, expires_ms)}
    _let_in(ending)
    return {**visitors, **ending, "unknown": Visitor(keyed.caller(unknown_token().text))}


def _let_in(visitors: Mapping[str, Visitor]) -> None:
    for name, visitor in visitors.items():
        until(f"{name} is let in", KNOWN_WITHIN_S, visitor.caller.is_let_in)


def come_late(door: Caller, late: LocalService) -> tuple[Answer, Answer, Answer]:
    """Open one more door; what it says of its life, of its readiness, and to an event."""
    late.start()
    server = Server(late.url)
    return server.ask("GET", "/healthz"), server.ask("GET", "/readyz"), door.send(event(0, "late"))


def taken(door: Caller) -> Answer | None:
    """The answer to an event, once it is taken in."""
    answer = door.send(event(0, "late"))
    return answer if answer.status == 202 else None
