"""How an endpoint stands, in words."""

import pytest

from meterline import limits
from meterline.delivery import Health, Outstanding, Standing
from meterline.window import DAY_MS, HOUR_MS

NOW = 1_770_000_000_000
REASON = "the receiver answered 500"


@pytest.mark.parametrize(
    ("health", "standing", "words"),
    [
        (Health(), Standing.UNTRIED, ""),
        (Health(last_success_at_ms=NOW), Standing.WELL, ""),
        (
            Health(NOW, NOW + 5, NOW + HOUR_MS, faults=3, reason=REASON),
            Standing.WELL,
            (
                "300 deliveries are retried without delaying others (the receiver answered 500)."
                " The receiver accepts other deliveries."
            ),
        ),
        (
            Health(NOW, NOW + 5, NOW + 2 * DAY_MS, reason=REASON),
            Standing.FAILING,
            (
                "300 deliveries are retried. The receiver accepted nothing since"
                " 2026-02-02T02:40:00.005Z (the receiver answered 500)."
            ),
        ),
        (
            Health(NOW, NOW + 1_000, NOW + 2_000, probe_at_ms=NOW + 9_000, reason="no connection"),
            Standing.DOWN,
            (
                "The receiver is down since 2026-02-02T02:40:01Z (no connection). One delivery at a"
                " time tests it, the next not before 2026-02-02T02:40:09Z. The others wait and use"
                " no attempt."
            ),
        ),
    ],
)
def test_what_is_said(health: Health, standing: Standing, words: str) -> None:
    outstanding = Outstanding(300 if words else 0, health)
    assert outstanding.standing is standing
    assert outstanding.message() == words


def test_how_many() -> None:
    well = Health(last_success_at_ms=NOW)
    assert Outstanding(1, well).message().startswith("1 delivery is retried")
    most = limits.RETRYING_COUNTED_MAX
    assert Outstanding(most, well).message().startswith("10000 deliveries or more are retried")
