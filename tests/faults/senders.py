"""Senders: what is not acknowledged is sent again, to whichever door, in whatever company."""

import http.client
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.faults.events import Event, event
from tests.faults.oracle import Oracle

PATH = "/api/v3/metering/events"
MEDIA = {"Content-Type": "application/cloudevents-batch+json"}
ANSWER_WITHIN_S = 15.0
ACCEPTED = 202
UNKNOWN = 503
AGAIN_SHARE = 0.05  # of the requests are sent again, to the other door, regrouped
OLD_SHARE = 0.02  # of the events in a request are copies of some that were sent long ago
PAUSE_S = 0.05


@dataclass(slots=True)
class Tally:
    """What senders saw."""

    requests: int = 0
    refused: int = 0  # answered otherwise than 202
    broken: int = 0  # not answered
    events: int = 0  # of accepted requests, copies too


@dataclass(slots=True)
class Senders:
    """Threads that send new events at a rate until they are paused."""

    seed: int
    doors: Sequence[str]
    oracle: Oracle
    rate: float = 300.0  # events a second, all senders together
    batch: int = 60
    threads: int = 2
    tally: Tally = field(default_factory=Tally)
    failures: list[str] = field(default_factory=list)  # answers that no sender should get
    _next: int = 0
    _owed: deque[int] = field(default_factory=deque)  # sent, and not known to be there
    _again: tuple[deque[int], deque[int]] = field(default_factory=lambda: (deque(), deque()))
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _going: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator["Senders"]:
        """Threads for the block; they wait until `resume`."""
        workers = [
            threading.Thread(target=self._work, args=(number,), name=f"sender-{number}")
            for number in range(self.threads)
        ]
        for worker in workers:
            worker.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._going.set()
            for worker in workers:
                worker.join()

    def resume(self) -> None:
        """Send."""
        self._going.set()

    def drain(self, within_s: float) -> None:
        """Send no more new events; return when everything sent is acknowledged."""
        self._going.clear()
        deadline = time.monotonic() + within_s
        while self._unfinished():
            assert time.monotonic() < deadline, f"the doors do not take {len(self._owed)} events"
            time.sleep(PAUSE_S)

    def send_all(self, events: Sequence[Event], door: str) -> None:
        """Send these now; they must be taken."""
        for first in range(0, len(events), self.batch):
            some = events[first : first + self.batch]
            answer = self.posted(door, some)
            assert answer == ACCEPTED, f"{door}: {answer}"
            self.oracle.accept(some)

    def _unfinished(self) -> bool:
        with self._lock:
            return bool(self._owed or self._busy)

    def _work(self, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        pause_s = self.batch * self.threads / self.rate
        while not self._ended.is_set():
            began_s = time.monotonic()
            door, numbers = self._drawn(rng)
            if not numbers:
                time.sleep(PAUSE_S)
                continue
            done = self._send(door, numbers, rng)
            if not done:
                time.sleep(PAUSE_S)
            elif self._going.is_set():
                time.sleep(max(0.0, began_s + pause_s - time.monotonic()))

    def _drawn(self, rng: random.Random) -> tuple[int, list[int]]:
        """Where to, and what: what is owed first, some copies, then new events."""
        with self._lock:
            door = rng.randrange(len(self.doors))
            owed = min(len(self._owed), rng.randint(1, self.batch))
            numbers = [self._owed.popleft() for _ in range(owed)]
            if self._going.is_set():
                copies = self._again[door % 2]
                numbers += [copies.popleft() for _ in range(min(len(copies), self.batch // 2))]
                old = sum(rng.random() < OLD_SHARE for _ in range(self.batch))
                numbers += [rng.randrange(self._next) for _ in range(old if self._next else 0)]
                fresh = max(0, self.batch - len(numbers))
                numbers += range(self._next, self._next + fresh)
                self._next += fresh
            self._busy += bool(numbers)
        rng.shuffle(numbers)
        return door, numbers

    def _send(self, door: int, numbers: list[int], rng: random.Random) -> bool:
        events = [event(self.seed, number) for number in numbers]
        answer = self.posted(self.doors[door], events)
        if answer == ACCEPTED:
            self.oracle.accept(events)
        with self._lock:
            self._busy -= 1
            self.tally.requests += 1
            if answer == ACCEPTED:
                self.tally.events += len(numbers)
                if rng.random() < AGAIN_SHARE:
                    self._again[(door + 1) % 2].extend(numbers)
                return True
            self.tally.refused += answer is not None
            self.tally.broken += answer is None
            self._owed.extend(numbers)
            if answer not in (None, UNKNOWN):
                self.failures.append(f"{self.doors[door]} answers {answer}")
        return False

    def posted(self, door: str, events: Sequence[Event]) -> int | None:
        """The status that a door answers these events with; None where it does not."""
        body = f"[{','.join(one.text() for one in events)}]".encode()
        parts = urlsplit(door)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S
        )
        try:
            connection.request("POST", PATH, body, MEDIA)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return answer.status
