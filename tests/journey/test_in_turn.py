"""Two of each role behind the proxy of compose.yaml, under load: each process is stopped and
started, then one of each role at once is killed and started, then each is. No request is refused,
each event counts once, and each delivery is one. Where a Docker engine answers, they are the
containers of compose.yaml.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from meterline.window import MINUTE_MS, parse_instant
from tests.journey.composed import Composed, as_processes, engine_composes, in_containers
from tests.journey.deadline import until
from tests.journey.load import FIRST_MS, REPORTS, V3, WITHIN_S, Load, SlowMailbox
from tests.journey.processes import run_command
from tests.journey.receiver import receiving
from tests.journey.setups import COMPOSED, ROLES

# Where an engine answers, images are fetched, and ours is built.
pytestmark = pytest.mark.timeout(1_800)

# First who delivers: what a killed one had in hand is free after two minutes, in which others end.
FRONT_AND_BACK: Final = ("ingest", "control", "aggregate")
ORDER: Final = ["dispatch-1", "dispatch-2"] + [f"{it}-{n}" for n in (1, 2) for it in FRONT_AND_BACK]


@pytest.fixture(scope="module")
def composed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Composed]:
    folder = tmp_path_factory.mktemp("composed")
    if engine_composes():
        with in_containers(folder) as containers:
            yield containers
    else:
        with as_processes(folder, request.getfixturevalue("servers")) as processes:
            yield processes


def end(load: Load, name: str, *, told: bool) -> None:
    """End a process while it is at work; one that is told to stop has to end well."""
    if name.startswith("dispatch"):
        until("a delivery is under way", WITHIN_S, lambda: load.under_way)
    if told:
        assert load.composed.stop(name) == 0, name
        return
    # The proxy sends nothing twice that changes something: nobody asks for that at this moment.
    with load.changes if name.startswith("control") else nullcontext():
        load.composed.kill(name)


def in_turn(load: Load, *, told: bool) -> None:
    """Each process is ended and started again, while all others go on."""
    assert set(ORDER) == set(COMPOSED)
    for name in ORDER:
        end(load, name, told=told)
        delivers = name.startswith("dispatch")  # its twin has to; other turns are too short for it
        load.more(deliveries=delivers)
        load.composed.start(name)
        load.more(deliveries=delivers)


def side(load: Load, number: int) -> None:
    """One of each role is killed at once, while its twin goes on."""

    def again(name: str) -> None:
        end(load, name, told=False)
        load.composed.start(name)

    with ThreadPoolExecutor(len(ROLES)) as threads:
        for one in [threads.submit(again, f"{role}-{number}") for role in ROLES]:
            one.result()
    load.more()


def counted(composed: Composed, load: Load) -> None:
    """Each accepted event counts once, and nothing else does."""

    def is_counted() -> bool:
        status = composed.control.get(f"{V3}/status").json
        return bool(status["caught_up"] and status["account"]["new"] == sum(load.accepted))

    until("all is counted", WITHIN_S, is_counted)
    asked = {"group_by_dimensions": ["subject"]}
    rows = composed.control.ask("POST", f"{V3}/meters/calls/query", asked).json["data"]
    found = {row.get("subject") or row["dimensions"]["subject"]: int(row["value"]) for row in rows}
    assert found == {f"s{sender}": number for sender, number in enumerate(load.accepted)}


def delivered(composed: Composed, load: Load) -> None:
    """What was used in each minute was delivered under one id, and always with the same body. Who
    was killed may not have told that it was: then it comes again.
    """
    for run in load.runs.values():
        made = until("a run ends", WITHIN_S, partial(ended, composed, run))
        assert (made["state"], made["delivered"]) == ("succeeded", len(load.accepted)), made
    found: dict[tuple[int, str], list[int]] = {}
    for box in load.boxes.values():
        assert box.refused == [], "each is signed"
        bodies = {one.id: one.body for one in box.delivered}
        assert {(one.id, one.body) for one in box.delivered} == set(bodies.items())
        for body in map(json.loads, bodies.values()):
            (entry,) = body["usage"]
            minute = (parse_instant(body["query"]["from"]) - FIRST_MS) // MINUTE_MS
            assert load.runs[minute].endswith(body["run"]["id"])
            found.setdefault((minute, entry["subject"]), []).append(entry["value"])
        sequence = sorted(json.loads(body)["run"]["sequence"] for body in bodies.values())
        assert sequence == list(range(1, len(bodies) + 1)), "none is left out or given twice"
    assert found == {
        (minute, subject): [value]
        for minute in load.runs
        for subject, value in load.of_minute[minute].items()
    }


def ended(composed: Composed, run: str) -> Any:
    """A run that has ended."""
    made = composed.control.get(run).json
    return made if "ended_at" in made else None


def under_load(load: Load) -> None:
    """Everything that is done to the processes."""
    with load.on():
        load.more()
        in_turn(load, told=True)
        for number in (1, 2):
            side(load, number)
        in_turn(load, told=False)
    assert {what: set(said) for what, said in load.statuses.items()} == {
        "events": {202}, "usage": {200}, "runs": {201},
    }, load.statuses  # fmt: skip
    assert not load.cut, "the proxy itself goes on"


def test_each_process_is_stopped_then_killed_under_load(composed: Composed, tmp_path: Path) -> None:
    with receiving(composed.listens_at) as receiver:
        boxes = {
            slug: receiver.with_box(slug, SlowMailbox(f"{receiver.url}/{slug}"))
            for slug in (f"calls-{number}" for number in range(REPORTS))
        }
        load = Load(composed, boxes)
        try:
            under_load(load)
            counted(composed, load)
            assert run_command(["audit", "--server", composed.control.url], tmp_path, {}) == ""
            delivered(composed, load)
        except BaseException as error:
            error.add_note(composed.logs())
            raise
