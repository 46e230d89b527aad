"""Lanes: statements of one kind, which have threads of their own."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from meterline.backends.clickhouse.clients.streams import ROWS_AS_JSON
from meterline.limits import ANSWER_S_MAX, RANK_WAIT_MS, USAGE_STORE_THREADS_MAX


class Lane(NamedTuple):
    """Statements of one kind. They have threads of their own, so no lane waits behind another.

    `rank` is the engine's priority: while a statement of a lower one runs, others stand still for
    up to `RANK_WAIT_MS` at each of their blocks. `threads` are statements at once, beginning
    streams among them; `streams` are those that are open. A stream must begin within
    `seconds_each`, other statements end.
    """

    name: str
    rank: int
    threads: int
    streams: int = 1
    bytes_each: int | None = None
    seconds_each: int | None = None
    gives_up: bool = False  # a statement that nobody waits for any more is ended
    form: str = ROWS_AS_JSON  # of streams

    def settings(
        self, given: Mapping[str, Any], *, embedded: bool, streamed: bool = False
    ) -> dict[str, Any]:
        """Settings of a statement: what it asks for, as far as the lane allows it."""
        most: dict[str, int] = {}
        if self.bytes_each is not None:
            most["max_memory_usage"] = self.bytes_each
        if self.seconds_each is not None:
            most["max_execution_time"] = ANSWER_S_MAX if streamed else self.seconds_each
        if embedded and self.rank > COUNTING.rank:
            most["max_threads"] = 1  # counting has the same cores
        lesser = {name: min(bound, given.get(name, bound)) for name, bound in most.items()}
        ranked = {"priority": self.rank, "low_priority_query_wait_time_ms": RANK_WAIT_MS}
        return {**given, **lesser, **ranked}


COUNTING: Final = Lane("counting", 1, USAGE_STORE_THREADS_MAX)
