"""A small part of a recording, for tests: what the dashboard asks for, before the first fault."""

import json
import re
from collections.abc import Sequence
from typing import Final

from tests.faults.pictures.recording import Span
from tests.unit.observe.promql import Recorded
from tests.unit.observe.rules import FOLDER

LASTS_S: Final = 75.0
APART_S: Final = 14.0  # every third scrape: as far apart as Prometheus' are
PROCESSES: Final = frozenset({"gateway-1", "aggregator-1", "dispatcher-1", "control"})


def excerpt(recorded: Recorded, spans: Sequence[Span]) -> Recorded:
    """Of one process of each role, its times from 0 on. Raises `ValueError` without a fault."""
    until_s = min(began for _, began, _ in spans)
    from_s = until_s - LASTS_S
    asked = recorded.of(_names())
    return Recorded(
        {
            labels: kept
            for labels, samples in asked.series.items()
            if dict(labels)["instance"] in PROCESSES
            and (kept := _thinned([one for one in samples if from_s <= one[0] < until_s], from_s))
        }
    )


def _names() -> set[str]:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    queries = [it["expr"] for panel in panels for it in panel.get("targets", ())]
    return set(re.findall(r"[a-z_]{2,}", " ".join(queries)))


def _thinned(samples: Sequence[tuple[float, float]], from_s: float) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for at_s, value in samples:
        if not found or at_s - from_s - found[-1][0] >= APART_S:
            found.append((at_s - from_s, value))
    return found
