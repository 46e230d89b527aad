"""Runs by schedule on both set-ups: each window that ends is delivered once, with what was used in
it, whether the product ran then or was stopped.
"""

import json
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import pairwise

import pytest

from meterline.window import parse_instant
from tests.journey.conftest import SETUPS
from tests.journey.scheduled import LENGTH_MS, Scheduled, told


@pytest.fixture(scope="module", params=SETUPS)
def way(request: pytest.FixtureRequest, scheduled: Mapping[str, Future[Scheduled]]) -> Scheduled:
    return scheduled[request.param].result()


@pytest.mark.parametrize("interval", LENGTH_MS)
def test_every_window_has_one_run_from_the_first_that_ended(way: Scheduled, interval: str) -> None:
    runs, length_ms = way.runs[interval], LENGTH_MS[interval]
    windows = [(parse_instant(run["from"]), parse_instant(run["to"])) for run in runs]
    created_ms = parse_instant(way.made[interval]["created_at"])
    assert windows[0][0] <= created_ms < windows[0][1]
    assert {to_ms - from_ms for from_ms, to_ms in windows} == {length_ms}
    assert all(one[1] == other[0] for one, other in pairwise(windows))
    assert windows[-1][1] >= way.reached_ms[interval]
    assert {(run["trigger"], run["revision"]) for run in runs} == {("schedule", 1)}
    assert {run["state"] for run in runs if "ended_at" in run} == {"succeeded"}


@pytest.mark.parametrize("interval", LENGTH_MS)
def test_what_is_delivered_is_what_was_used_in_the_window_each_once(
    way: Scheduled, interval: str
) -> None:
    box = way.boxes[interval]
    delivered = Counter(told(one)[0] for one in box.delivered)
    assert set(delivered.values()) == {1}
    assert dict(told(one) for one in box.delivered) == way.used[interval]
    assert len({one.id for one in box.delivered}) == len(box.delivered)
    assert box.refused == []
    said = [json.loads(one.body)["run"] for one in box.delivered]
    assert sorted(run["sequence"] for run in said) == list(range(1, len(said) + 1))
    assert {run["trigger"] for run in said} == {"schedule"}


@pytest.mark.parametrize("interval", LENGTH_MS)
def test_a_window_that_ended_while_nothing_ran_was_made_up_for(
    way: Scheduled, interval: str
) -> None:
    at_ms = way.missed[interval]
    (run,) = [
        run
        for run in way.runs[interval]
        if parse_instant(run["from"]) <= at_ms < parse_instant(run["to"])
    ]
    assert run["manifest"]["deliveries"] == 2
    assert parse_instant(run["asked_at"]) > parse_instant(run["to"])
