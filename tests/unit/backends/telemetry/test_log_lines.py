"""A fault that repeats writes few lines, and none of another fault is left out for it."""

import logging
import subprocess
import sys
import threading
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from meterline.backends.telemetry.log_lines import LEFT_OUT, Repeats, Sparing, sparing
from meterline.limits import LOG_REPEAT_S, LOG_REPEATS_KNOWN_MAX, LOG_REPEATS_MAX


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def seconds(self) -> float:
        return self.now_s


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, LOG_REPEAT_S)), max_size=60))
def test_what_is_left_out_is_told_with_the_next_line(lines: list[tuple[int, float]]) -> None:
    clock = Hand()
    repeats = Repeats(clock.seconds)
    told: dict[int, int] = {}
    left: dict[int, int] = {}
    for line, later_s in lines:
        clock.now_s += later_s
        left_out = repeats.admit(line)
        if left_out is None:
            left[line] = left.get(line, 0) + 1
        else:
            told[line] = told.get(line, 0) + 1 + left_out
            assert left_out == left.pop(line, 0)
    for line in {line for line, _ in lines}:
        assert told[line] + left.get(line, 0) == sum(line == one for one, _ in lines)


def test_a_fault_writes_some_lines_a_minute() -> None:
    clock = Hand()
    repeats = Repeats(clock.seconds)
    admitted = [repeats.admit("away") for _ in range(100)]
    assert admitted == [0] * LOG_REPEATS_MAX + [None] * (100 - LOG_REPEATS_MAX)
    assert repeats.admit("another") == 0
    clock.now_s = LOG_REPEAT_S
    assert repeats.admit("away") == 100 - LOG_REPEATS_MAX
    assert repeats.admit("away") == 0


def test_a_finalizer_may_write_a_line_while_one_is_counted() -> None:
    """The collector comes wherever something is made; what it ends may write a line."""
    found: list[int | None] = []
    clock = Hand()

    def seconds() -> float:
        if not clock.now_s:
            clock.now_s = 1.0
            found.append(repeats.admit("of a finalizer"))
        return clock.now_s

    repeats = Repeats(seconds)
    writing = threading.Thread(target=lambda: found.append(repeats.admit("away")), daemon=True)
    writing.start()
    writing.join(30)
    assert found == [0, 0]


def test_as_many_faults_as_there_are_take_no_more_memory() -> None:
    repeats = Repeats(Hand().seconds)
    for number in range(3 * LOG_REPEATS_KNOWN_MAX):
        assert repeats.admit(number) == 0
    assert len(repeats._known) == LOG_REPEATS_KNOWN_MAX  # noqa: SLF001 - what it holds is the point


def written(processor: Any, **fields: Any) -> dict[str, Any] | None:
    try:
        return dict(processor(None, "", fields))
    except structlog.DropEvent:
        return None


def test_requests_of_one_fault_are_one_and_other_facts_are_not() -> None:
    clock = Hand()
    processor = sparing(Repeats(clock.seconds))
    fault = {"level": "warning", "event": "request", "reason": "Kafka is away"}
    for number in range(LOG_REPEATS_MAX):
        assert written(processor, **fault, request=f"r{number}") is not None
    assert written(processor, **fault, request="more") is None
    assert written(processor, **{**fault, "reason": "ClickHouse is away"}) is not None
    assert written(processor, **fault, exc_info=ValueError("ours")) is not None
    clock.now_s = LOG_REPEAT_S
    assert written(processor, **fault) == {**fault, LEFT_OUT: 1}
    news = {"level": "info", "event": "block_made"}
    assert [written(processor, **news) for _ in range(99)] == [news] * 99


def test_lines_of_libraries_too(caplog: pytest.LogCaptureFixture) -> None:
    clock = Hand()
    caplog.handler.addFilter(Sparing(Repeats(clock.seconds)))
    library = logging.getLogger("aiokafka")
    for _ in range(LOG_REPEATS_MAX + 3):
        library.error("Unable connect to %s", "kafka-1")
    assert caplog.messages == ["Unable connect to kafka-1"] * LOG_REPEATS_MAX
    clock.now_s = LOG_REPEAT_S
    library.error("Unable connect to %s", "kafka-1")
    assert caplog.messages[-1] == "Unable connect to kafka-1 (left_out=3)"


def test_lines_of_threads_are_written_by_the_clock_of_a_process() -> None:
    code = """
import logging, threading
from meterline.runtime.process import configure_logs
configure_logs("info")
tell = lambda: [logging.getLogger("urllib3").warning("Retrying") for _ in range(50)]
threads = [threading.Thread(target=tell) for _ in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.splitlines() == ["WARNING:urllib3:Retrying"] * LOG_REPEATS_MAX
