"""Whether counting gets on, told from what the worker knows without asking anybody (pure)."""

from collections.abc import Mapping
from typing import Final

from meterline.limits import STALLED_AFTER_S
from meterline.ports import Unavailable

UNREADY_AFTER_S: Final = STALLED_AFTER_S / 2  # ended at twice that, where a new process is a cure


class Standing:
    """Partitions that have records behind them and do not move.

    It is told where they are as often as the worker looks, by a clock that only goes on.
    """

    def __init__(self) -> None:
        self._since_s: dict[int, tuple[int, float]] = {}  # where it stands, since when

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
        """Raises `Unavailable` that names the partition which stands for a minute."""
        for number, (offset, since_s) in sorted(self._since_s.items()):
            if now_s - since_s >= UNREADY_AFTER_S:
                raise Unavailable(
                    f"partition {number} stands at offset {offset} for {now_s - since_s:.0f} s,"
                    " but the log has more. See the log of this process for what it waits for"
                )
