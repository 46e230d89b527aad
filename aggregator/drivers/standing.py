"""Whether counting gets on, told from what the worker knows without asking anybody (pure)."""

from collections.abc import Mapping
from typing import Final

from meterline.limits import SILENT_BESIDE_OTHERS_AFTER_S, STALLED_AFTER_S
from meterline.ports import Unavailable

UNREADY_AFTER_S: Final = STALLED_AFTER_S / 2  # ended at twice that, where a new process is a cure


class Stuck(RuntimeError):
    """A partition stands, and nothing that it needs is away: a new process is the cure."""


class Standing:
    """Partitions that have records behind them and do not move.

    It is told where they are as often as the worker looks, by a clock that only goes on. Who waits
    for a store longer than `stuck_after_s` would be taken for stuck.
    """

    def __init__(self, stuck_after_s: float = STALLED_AFTER_S) -> None:
        self._stuck_after_s = stuck_after_s
        self._since_s: dict[int, tuple[int, float]] = {}  # where it stands, since when
        self._waited_s = float("-inf")  # when something outside was last known to be away
        self._checked_s: float | None = None
        # partitions whose preparing failed the last time, since when, and why
        self._failing: dict[int, tuple[float, str]] = {}

    def look(self, reached: Mapping[int, int], ends: Mapping[int, int], now_s: float) -> None:
        """`reached` says up to where each partition is durable in the usage store; `ends` up to
        where the log is known to have records. What is at its end does not stand still.
        """
        before, self._since_s = self._since_s, {}
        for number, offset in reached.items():
            if ends.get(number, offset) <= offset:
                continue
            here = offset, now_s
            stood = before.get(number, here)
            self._since_s[number] = stood if stood[0] == offset else here

    def longest_s(self, now_s: float) -> float:
        """For how long the one that stands longest does; 0 where none stands."""
        return max((now_s - since_s for _, since_s in self._since_s.values()), default=0.0)

    def check(self, now_s: float) -> None:
        """Raises `Unavailable` that names the partition which stands for a minute, or fails to be
        prepared for so long.
        """
        for number, (offset, since_s) in sorted(self._since_s.items()):
            if now_s - since_s >= UNREADY_AFTER_S:
                raise Unavailable(
                    f"partition {number} stands at offset {offset} for {now_s - since_s:.0f} s,"
                    " but the log has more. See the log of this process for what it waits for"
                )

        for number, (since_s, reason) in sorted(self._failing.items()):
            if now_s - since_s >= UNREADY_AFTER_S:
                raise Unavailable(
                    f"partition {number} is not counted: preparing it has failed for"
                    f" {now_s - since_s:.0f} s, the last time because of: {reason}"
                )

    def failed(self, number: int, reason: str, now_s: float) -> None:
        """A partition could not be prepared, once more; it is tried again."""
        since_s, _ = self._failing.get(number, (now_s, reason))
        self._failing[number] = since_s, reason

    def prepared(self, number: int) -> None:
        """A partition is prepared, or is not this worker's any more."""
        self._failing.pop(number, None)

    def waits(self, now_s: float) -> None:
        """Something outside was away just now: a new process would wait for it as well."""
        self._waited_s = now_s

    def check_stuck(self, now_s: float) -> None:
        """Raises `Stuck` where a partition stands for so long without a reason. Call it every
        few seconds: after a longer pause nobody knows why it stands.
        """
        before_s, self._checked_s = self._checked_s, now_s
        paused = before_s is None or now_s - before_s > SILENT_BESIDE_OTHERS_AFTER_S
        if paused:
            self._waited_s = now_s
        for number, (offset, since_s) in sorted(self._since_s.items()):
            if now_s - max(since_s, self._waited_s) >= self._stuck_after_s:
                raise Stuck(
                    f"partition {number} is stuck at offset {offset}: the log has more, and nothing"
                    f" was counted for {self._stuck_after_s:g} s although all stores answer. The"
                    " process ends, so that a new one goes on"
                )
