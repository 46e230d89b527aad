"""The events of the bench: each follows from its number alone, so a copy is made by naming it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

SUBJECTS: Final = 12
REGIONS: Final = ("eu", "us", "ap")
START_MS: Final = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000
SPAN_MS: Final = 6 * 3_600_000  # a prime step through it gives each event a time of its own
STEP_MS: Final = 7_919
BAD_EVERY: Final = 500  # an amount that is no number
OTHER_EVERY: Final = 50  # an event that no meter wants

# What reports are made of: sent before everything else, and never added to.
SETTLED_MS: Final = int(datetime(2026, 1, 4, tzinfo=UTC).timestamp()) * 1_000
SETTLED_MINUTES: Final = 240
SETTLED_SUBJECTS: Final = 6


@dataclass(frozen=True, slots=True)
class Event:
    """An event before it is text. `amount` is None where it is no number."""

    id: str
    type: str
    subject: str
    time_ms: int
    region: str
    amount: Fraction | None
    took: int
    user: str

    def text(self) -> str:
        """It as JSON; amounts come as numbers and as text."""
        amount: object = "n/a"
        if self.amount is not None:
            digits = f"{self.amount.numerator * 1_000 // self.amount.denominator:04d}"
            text = f"{digits[:-3]}.{digits[-3:]}"
            amount = text if self.took % 2 else float(text)
        moment = datetime.fromtimestamp(self.time_ms // 1_000, UTC)
        return json.dumps(
            {
                "specversion": "1.0",
                "id": self.id,
                "source": "faults",
                "type": self.type,
                "subject": self.subject,
                "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{self.time_ms % 1_000:03d}Z",
                "data": {
                    "amount": amount,
                    "region": self.region,
                    "took": self.took,
                    "user": self.user,
                },
            }
        )


def event(seed: int, number: int) -> Event:
    """The event with this number."""
    mixed = (number * 2_654_435_761 + seed * 40_503) % 2**32
    bad = number % BAD_EVERY == BAD_EVERY - 1
    return Event(
        id=f"{seed}-{number}",
        type="noise" if number % OTHER_EVERY == 0 else "call",
        subject=f"s-{mixed % SUBJECTS}",
        time_ms=START_MS + number * STEP_MS % SPAN_MS,
        region=REGIONS[mixed // 16 % len(REGIONS)],
        amount=None if bad else Fraction(mixed // 64 % 1_000_000, 1_000),
        took=mixed // 1_024 % 100_000,
        user=f"u-{mixed // 4_096 % 40}",
    )


def settled(number: int) -> Event:
    """An event of the history that reports are made of: one a minute and subject."""
    minute, subject = divmod(number, SETTLED_SUBJECTS)
    return Event(
        id=f"settled-{number}",
        type="settled",
        subject=f"s-{subject}",
        time_ms=SETTLED_MS + minute * 60_000 + subject,
        region=REGIONS[number % len(REGIONS)],
        amount=Fraction(number * 7 % 9_999, 1_000),
        took=number,
        user=f"u-{number % 40}",
    )


def of_subject(name: str, number: int) -> Event:
    """An event of a subject that is to be erased: its name is in all that can name it."""
    return Event(
        id=f"{name}-{number}",
        type="erased",
        subject=name,
        time_ms=START_MS + number * STEP_MS % SPAN_MS,
        region=REGIONS[number % len(REGIONS)],
        amount=None if number % 10 == 3 else Fraction(number * 11 % 9_999, 1_000),
        took=number,
        user=f"{name}-user",
    )


SETTLED: Final = tuple(settled(number) for number in range(SETTLED_MINUTES * SETTLED_SUBJECTS))
METERS: Final[tuple[dict[str, object], ...]] = tuple(
    {
        "key": key,
        "name": key,
        "aggregation": aggregation,
        "event_type": event_type,
        "dimensions": {"region": "$.region"},
        **({"value_property": path} if path else {}),
    }
    for key, aggregation, event_type, path in (
        ("amounts", "sum", "call", "$.amount"),
        ("calls", "count", "call", ""),
        ("longest", "max", "call", "$.took"),
        ("newest", "latest", "call", "$.took"),
        ("users", "unique_count", "call", "$.user"),
        ("settled", "sum", "settled", "$.amount"),
        ("erased", "sum", "erased", "$.amount"),
    )
)
