"""Every panel of the dashboard shows something while all is well: `healthy.jsonl` has a minute of a
real run. `python -m tests.faults.pictures FOLDER --excerpt FILE` makes it anew.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.pictures.panels import Panel, lines, sections
from tests.faults.pictures.recording import JOB, read
from tests.unit.observe.promql import Recorded, labels_of
from tests.unit.observe.test_names import DASHBOARD

RECORDED, _ = read(Path(__file__).with_name("healthy.jsonl"))
LAST_S = max(samples[-1][0] for samples in RECORDED.series.values())
PANELS = [panel for section in sections(DASHBOARD) for panel in section.panels]
# Filled by a fault, or for a moment: while all is well they show 0, and when they show more.
ZERO = {
    "Failed requests": "answers are 5xx",
    "Oldest delivery owed": "deliveries are not taken, or were just decided",
    "Endpoints out": "a receiver is down",
    "Runs late": "runs cannot be decided for five minutes",
    "Processes not ready": "a process or a store is away",
    "Pending": "the log is slow, or just when a request waits for it",
    "Slices to fill in": "a new meter is filled in",
    "Events and keys to fill in": "a new meter is filled in, or a partition catches up",
    "Store errors": "a store is away",
    "Deliveries owed": "deliveries are not taken, or were just decided",
    "Down and restarted": "a process is away, or came back in the last five minutes",
}


@pytest.mark.parametrize("panel", PANELS, ids=lambda it: it.title)
def test_no_panel_is_empty_while_all_is_well(panel: Panel) -> None:
    for target in panel.targets:
        found = lines(replace(panel, targets=(target,)), RECORDED, [LAST_S])
        assert found, target
        assert all(value >= 0 for line in found for _, value in line.points), target


@pytest.mark.parametrize("panel", PANELS, ids=lambda it: it.title)
def test_lines_of_a_panel_are_told_apart_by_name(panel: Panel) -> None:
    names = [line.name for line in lines(panel, RECORDED, [LAST_S])]
    assert all(names)
    assert len(set(names)) == len(names)


def test_panels_that_show_nothing_but_zero_while_all_is_well_are_known() -> None:
    zero = {
        panel.title
        for panel in PANELS
        if not any(value for line in lines(panel, RECORDED, [LAST_S]) for _, value in line.points)
    }
    assert zero <= ZERO.keys()
    assert ZERO.keys() <= {panel.title for panel in PANELS}


def shown(title: str, series: Mapping[str, Sequence[float]], at_s: float) -> Mapping[str, float]:
    """The lines of a panel, over series with a value every 15 seconds."""
    (panel,) = (it for it in PANELS if it.title == title)
    recorded = Recorded(
        {
            labels_of(f'{name},job="{JOB}"}}'): [(15.0 * at, it) for at, it in enumerate(values)]
            for name, values in series.items()
        }
    )
    return {line.name: line.points[0][1] for line in lines(panel, recorded, [at_s])}


def test_a_process_that_is_down_or_not_ready_is_counted_once() -> None:
    series = {
        'up{instance="well"': [1.0],
        'meterline_ready{instance="well"': [1.0],
        'up{instance="down"': [0.0],
        'up{instance="without a store"': [1.0],
        'meterline_ready{instance="without a store"': [0.0],
    }
    assert shown("Processes not ready", series, 0.0) == {"not ready": 2.0}
    assert shown("Processes not ready", dict(list(series.items())[:2]), 0.0) == {"not ready": 0.0}


def test_what_is_down_and_what_was_restarted_is_shown() -> None:
    series = {
        'up{instance="a"': [1.0, 0.0, 1.0],
        'process_start_time_seconds{instance="a"': [7.0, math.nan, 30.0],
        'up{instance="b"': [1.0, 1.0, 1.0],
        'process_start_time_seconds{instance="b"': [8.0, 8.0, 8.0],
    }
    assert shown("Down and restarted", series, 15.0) == {"down": 1.0, "restarts": 0.0}
    assert shown("Down and restarted", series, 30.0) == {"down": 0.0, "restarts": 1.0}
