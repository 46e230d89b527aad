"""Every role as it runs in the image: its user, its read-only root, its probe, on real servers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image import Image
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, started
from tests.services.local import spawned

EVENTS, METERS = "/api/v3/metering/events", "/api/v3/metering/meters"
METER = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}
EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "image",
    "type": "call",
    "subject": "acme",
    "time": "2026-01-31T09:15:00Z",
}
ONE = {"Content-Type": "application/cloudevents+json"}
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def roles(
    image: Image, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SetUp]:
    """Two aggregators and one of each other role, as the image starts them."""
    folder = tmp_path_factory.mktemp("image")
    program = image.command(["meterline"], volume="", given={"METERLINE_PORT"})
    setup = distributed(folder, servers, program=program, begin=spawned)
    for name in setup.processes:
        volume = folder / name / "data"
        volume.mkdir()
        image.give(volume)
    with started(setup):
        yield setup


def test_each_role_is_ready_by_the_probe_of_the_image(roles: SetUp, image: Image) -> None:
    for process in roles.processes.values():
        port = process.environment["METERLINE_PORT"]
        probed = image.run(image.health, {"METERLINE_PORT": port})
        assert probed.returncode == 0, probed.stderr
        assert image.is_its_user(process.pid)


def test_they_count_on_a_read_only_root(roles: SetUp) -> None:
    roles.control.made(METERS, METER)
    sent = roles.ingest.ask("POST", EVENTS, json.dumps(EVENT).encode(), ONE)
    assert sent.status == 202
    until("it is counted", WITHIN_S, lambda: roles.status["account"]["new"] == 1)
    for name, process in roles.processes.items():
        words = process.log_path.read_text()
        assert "Read-only file system" not in words, name
        assert "Permission denied" not in words, name


def test_the_seen_stores_are_on_the_volume(roles: SetUp) -> None:
    kept: list[Path] = []
    for name in ("aggregate-1", "aggregate-2"):
        kept += (roles.folder / name / "data" / "seen").rglob("CURRENT")
    assert kept
