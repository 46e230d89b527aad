"""The oracle: what must count, from what was acknowledged. It shares nothing with the fold: plain
dictionaries over the generator's own values.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tests.faults.events import Event

HOUR_MS = 3_600_000

Cell = tuple[int, str, str]
"""Start of the hour, subject, region."""


@dataclass(slots=True)
class Figures:
    """What is known of a cell."""

    events: int = 0
    numbers: int = 0
    amounts: Fraction = Fraction(0)
    longest: int = -1
    newest: tuple[int, int] = (-1, -1)
    users: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Count an event."""
        self.events += 1
        if event.amount is not None:
            self.numbers += 1
            self.amounts += event.amount
        self.longest = max(self.longest, event.took)
        self.newest = max(self.newest, (event.time_ms, event.took))
        self.users.add(event.user)

    def of(self, meter: str) -> tuple[Fraction, int, int]:
        """Value, events that counted, events without a usable value."""
        whole = (self.events, 0)
        match meter:
            case "amounts" | "settled" | "erased":
                return (self.amounts, self.numbers, self.events - self.numbers)
            case "calls":
                return (Fraction(self.events), *whole)
            case "longest":
                return (Fraction(self.longest), *whole)
            case "newest":
                return (Fraction(self.newest[1]), *whole)
            case _:
                return (Fraction(len(self.users)), *whole)


class Oracle:
    """What was acknowledged, each identity once. Several threads may tell it."""

    def __init__(self) -> None:
        self.identities: set[str] = set()
        self.copies = 0  # acknowledged beyond the first of each identity
        self._cells: dict[str, dict[Cell, Figures]] = defaultdict(lambda: defaultdict(Figures))
        self._lock = threading.Lock()

    def accept(self, events: Iterable[Event]) -> None:
        """These were answered with 202, together."""
        with self._lock:
            for one in events:
                if one.id in self.identities:
                    self.copies += 1
                    continue
                self.identities.add(one.id)
                hour = one.time_ms // HOUR_MS * HOUR_MS
                self._cells[one.type][hour, one.subject, one.region].add(one)

    def erase(self, subject: str, pseudonym: str) -> None:
        """What counted under a name counts under another one from now on."""
        with self._lock:
            for cells in self._cells.values():
                for hour, named, region in [cell for cell in cells if cell[1] == subject]:
                    cells[hour, pseudonym, region] = cells.pop((hour, named, region))

    def total(self, meter: str) -> Fraction:
        """The sum of a meter of sums."""
        return sum((value for value, *_ in self.cells(meter).values()), Fraction(0))

    def cells(self, meter: str) -> dict[Cell, tuple[Fraction, int, int]]:
        """What a query of a meter by hour, subject and region must answer."""
        with self._lock:
            cells = self._cells[meter if meter in ("settled", "erased") else "call"]
            told = {cell: figures.of(meter) for cell, figures in cells.items()}
        return {cell: shown for cell, shown in told.items() if shown[1]}


def compared(
    meter: str, expected: dict[Cell, tuple[Fraction, int, int]], rows: Sequence[Any]
) -> list[str]:
    """What differs between the oracle and the rows of a v3 answer, in words."""
    shown = {
        (row["from"], row["dimensions"]["subject"], row["dimensions"]["region"]): (
            Fraction(row["value"]),
            row["counted"],
            row["rejected"],
        )
        for row in rows
    }
    wanted = {(_instant(at), subject, region): v for (at, subject, region), v in expected.items()}
    differing = [key for key in wanted.keys() | shown.keys() if wanted.get(key) != shown.get(key)]
    return [
        f"{meter} {key}: expected {_told(wanted.get(key))}, found {_told(shown.get(key))}"
        for key in sorted(differing)
    ]


def _told(figures: tuple[Fraction, int, int] | None) -> str:
    if figures is None:
        return "nothing"
    value, counted, rejected = figures
    return f"{float(value)} of {counted} (+{rejected} rejected)"


def _instant(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
