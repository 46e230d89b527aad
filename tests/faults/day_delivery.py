"""The events of a day on their way through the doors, and how many of them are counted."""

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tests.faults.day_events import Day
from tests.faults.senders import ACCEPTED, MEDIA, PATH, UNKNOWN
from tests.journey.client import Server

BATCH: Final = 2_000
SENDERS: Final = 2
AHEAD: Final = 8  # of the day, one part in so many may be sent and not counted yet
ANSWER_WITHIN_S: Final = 30.0
PAUSE_S: Final = 0.1


@dataclass(slots=True)
class Delivery:
    """The day on its way through the doors."""

    day: Day
    doors: Sequence[str]
    rate: float | None = None  # events a second; None: as fast as they are taken
    ahead: int | None = None  # may be sent and not counted yet; None: a part of the day
    batch: int = BATCH
    counted: int = 0
    acknowledged: int = 0
    again: int = 0  # requests that were not answered with 202
    failure: str = ""
    _next: int = 0
    _began_s: float = 0.0
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send during the block."""
        self._began_s = time.monotonic()
        workers = [threading.Thread(target=self._work, args=(n,)) for n in range(SENDERS)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._ended = True
            for worker in workers:
                worker.join()

    def _work(self, number: int) -> None:
        door = number
        connections = [_connection(url) for url in self.doors]
        while not self._ended and (span := self._span()) is not None:
            body = self.day.body(*span)
            while not self._ended:
                status = _posted(connections[door % len(connections)], body)
                if status == ACCEPTED:
                    break
                if status not in (None, UNKNOWN):
                    self.failure = f"{self.doors[door % len(connections)]} answers {status}"
                    return
                door += 1
                self.again += 1
                time.sleep(PAUSE_S)
            else:
                return  # it was not taken
            with self._lock:
                self.acknowledged += span[1] - span[0]

    def _span(self) -> tuple[int, int] | None:
        """The next events, once they are due."""
        ahead = self.day.events // AHEAD if self.ahead is None else self.ahead
        while self._next - self.counted > ahead and not self._ended:
            time.sleep(PAUSE_S)
        with self._lock:
            first = self._next
            self._next = min(first + self.batch, self.day.events)
            span = first, self._next
        due_s = self._began_s + (0.0 if self.rate is None else first / self.rate)
        while not self._ended and (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, PAUSE_S))
        return span if first < span[1] else None


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S)


def _posted(connection: http.client.HTTPConnection, body: bytes) -> int | None:
    try:
        connection.request("POST", PATH, body, MEDIA)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return None
    return answer.status


def account_of(api: Server) -> tuple[int, bool]:
    """How many events are counted, copies too, and whether these are all of the log."""
    try:
        status: Any = api.get("/api/v3/metering/status").json
    except (OSError, http.client.HTTPException, AssertionError):
        return 0, False  # it was killed
    account = status["account"]
    return (account["received"] if account else 0), bool(status["caught_up"])
