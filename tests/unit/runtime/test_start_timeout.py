"""How long a start waits for its servers, and what it says: which one, why, what to do."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from meterline.limits import START_REFUSALS_MAX
from meterline.ports import AccessRefused, Unavailable, Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience, RetryTimes
from tests.services.local import nobody_at

Act = Callable[[], Awaitable[str]]


HASTY = RetryTimes(first_s=0.001, longest_s=0.4, tell_s=0.001)


@contextmanager
def taking() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


def raising(errors: list[Exception]) -> Act:
    """Raise these, one each time; then answer."""

    async def act() -> str:
        if errors:
            raise errors.pop(0)
        return "there"

    return act


def settings(port: int, timeout_s: int = 600) -> Settings:
    """A start that has all the time that a busy machine may need, unless its end is asked for."""
    return Settings(
        log_url=f"kafka://127.0.0.1:{port},127.0.0.1:{port}",
        control_url=f"postgresql://user:hidden@127.0.0.1:{port}/base",
        start_timeout_s=timeout_s,
    )


async def test_each_wait_is_told_with_server_reason_and_advice() -> None:
    with nobody_at() as port, capture_logs() as lines:
        waiting = Patience(settings(port), asyncio.Event(), HASTY)
        act = raising([Unavailable("client's words"), Unavailable("client's words")])
        assert await waiting.wait("control", act) == "there"
    assert len(lines) == 2
    told = {name: lines[0][name] for name in ("event", "part", "server", "reason", "hint")}
    assert told == {
        "event": "waiting",
        "part": "control",
        "server": f"PostgreSQL at 127.0.0.1:{port}",
        "reason": "connection refused",
        "hint": "start it, or correct control_url",
    }


async def test_a_server_that_connects_is_told_in_its_client_s_words() -> None:
    with taking() as port, capture_logs() as lines:
        waiting = Patience(settings(port), asyncio.Event(), HASTY)
        await waiting.wait("log", raising([Unavailable("Kafka: no answer in time")]))
    assert lines[0]["reason"] == "connected, but Kafka: no answer in time"


async def test_when_the_time_is_over_one_line_says_all_of_it() -> None:
    never = raising([Unavailable("")] * 1_000)
    with nobody_at() as port:
        waiting = Patience(settings(port, 1), asyncio.Event(), HASTY)
        with pytest.raises(Unsuitable) as ended:
            await waiting.wait("log", never)
    server = f"127.0.0.1:{port}"
    assert str(ended.value) == (
        f"Kafka at {server}, {server}: {server}: connection refused; {server}: connection refused."
        " Gave up after 1 s (start_timeout_s). Start it, or correct log_url, then start again"
    )


async def test_access_that_is_refused_ends_after_a_few_tries() -> None:
    refusals: list[Exception] = [AccessRefused("control store: wrong password")] * 10
    with taking() as port:
        waiting = Patience(settings(port), asyncio.Event(), HASTY)
        with pytest.raises(Unsuitable) as ended:
            await waiting.wait("control", raising(refusals))
    assert len(refusals) == 10 - START_REFUSALS_MAX
    assert str(ended.value) == (
        f"PostgreSQL at 127.0.0.1:{port}: control store: wrong password."
        " Correct user, password and database in control_url, then start again"
    )


async def test_an_embedded_store_is_not_waited_for() -> None:
    waiting = Patience(Settings(), asyncio.Event(), HASTY)
    with pytest.raises(Unavailable, match="damaged"):
        await waiting.wait("control", raising([Unavailable("control.db is damaged")]))


async def test_a_start_that_is_stopped_waits_no_longer() -> None:
    stop = asyncio.Event()

    told = asyncio.Event()

    async def hangs() -> str:
        await asyncio.sleep(0.01)  # by then it was told
        told.set()
        await asyncio.Event().wait()
        return ""

    with taking() as port, capture_logs() as lines:
        waiting = asyncio.ensure_future(
            Patience(settings(port), stop, HASTY).wait("control", hangs)
        )
        await told.wait()
        stop.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert lines[0]["reason"] == "no answer for 0 s"
