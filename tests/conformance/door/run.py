"""A run: many requests to a door at `port`, some at once; the first wrong answer ends it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import psutil

from tests.conformance.door.ledger import Answer, Ledger, Wrong
from tests.conformance.door.posts import HARD_NAMES, IN_FLIGHT_MAX, Post, Series
from tests.conformance.door.wire import Connection, NoAnswer

CONNECTIONS: Final = 32
SAMPLES: Final = 200
"""Memory is looked at so often in a run, by requests and not by time: each part of a run has some,
however fast it passes.
"""
SHOWN_S: Final = 0.25
SHOWN: Final = 2_000
"""Bytes of a body that are shown with its failure."""


@dataclass(slots=True)
class Course:
    """How far a run is, for whoever watches."""

    of: int
    sent: int = 0
    seconds: float = 0.0
    resident: list[tuple[int, int]] = field(default_factory=list)
    """Memory of the server: (requests answered so far, bytes)."""


class Run:
    """The first `count` requests of a seed, sent to a server at a port, whose process is `pid`."""

    def __init__(self, port: int, pid: int, seed: int, count: int) -> None:
        self._port = port
        self._process = psutil.Process(pid)
        self._seed = seed
        self._series = Series(seed)
        self._numbers = iter(range(count))
        self._alone = asyncio.Semaphore(1)
        self.ledger = Ledger(self._series)
        self.course = Course(count)
        self._sampled_at = 0

    async def send(self, told: Callable[[Course], None]) -> None:
        """Send all. Raises `Wrong` that describes the first request whose answer is wrong."""
        assert CONNECTIONS <= IN_FLIGHT_MAX
        started_at = time.perf_counter()
        self._sample()
        # The hard ones first, one after the other: what they cost once is not what is measured.
        await self._work(len(HARD_NAMES))
        watching = asyncio.create_task(self._watch(started_at, told))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(CONNECTIONS):
                    group.create_task(self._work())
        except* Wrong as errors:
            raise errors.exceptions[0] from None
        finally:
            watching.cancel()
            self.course.seconds = time.perf_counter() - started_at
            told(self.course)

    async def _work(self, most: int | None = None) -> None:
        """Send what comes next, over one connection."""
        connection = Connection(self._port)
        try:
            for number in islice(self._numbers, most):
                await self._one(connection, number)
        finally:
            connection.close()

    async def _one(self, connection: Connection, number: int) -> None:
        post = self._series[number]
        answer: Answer | None = None
        try:
            if post.large:
                async with self._alone:
                    answer = await connection.ask(post)
                    self.ledger.take(number, post, answer)
            else:
                answer = await connection.ask(post)
                self.ledger.take(number, post, answer)
        except (Wrong, NoAnswer) as error:
            raise Wrong(_described(self._seed, number, post, answer, error)) from error
        self.course.sent += 1
        if self.course.sent >= self._sampled_at:
            self._sample()

    def _sample(self) -> None:
        self._sampled_at = self.course.sent + max(1, self.course.of // SAMPLES)
        self.course.resident.append((self.course.sent, self._process.memory_info().rss))

    async def _watch(self, started_at: float, told: Callable[[Course], None]) -> None:
        while True:
            self.course.seconds = time.perf_counter() - started_at
            told(self.course)
            await asyncio.sleep(SHOWN_S)


def _described(seed: int, number: int, post: Post, answer: Answer | None, error: Exception) -> str:
    body = post.body if len(post.body) <= SHOWN else post.body[:SHOWN] + b"..."
    asked = f"{post.path} {post.media_type!r} {post.encoding!r} chunked={post.chunked}"
    got = "nothing"
    if answer is not None:
        got = f"{answer.status} {answer.headers} {answer.body[:SHOWN]!r}"
    return (
        f"{error}\nrequest {number} of seed {seed} ({post.kind}), {len(post.body)} bytes: {asked}"
        f"\n{body!r}\nanswer: {got}"
    )
