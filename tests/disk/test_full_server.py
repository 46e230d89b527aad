"""The disk of a ClickHouse server fills up while events are counted, and room is made: each role is
a process of its own, with real servers.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disk.disk import Disk
from tests.disk.test_full_disk import CALLS, counted, is_clean, post, total
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, telling
from tests.services.clickhouse import local_clickhouse

WITHIN_S = 120.0
EACH = 190  # what a batch sums up to


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "clickhouse", tmp_path / "beside")
    yield made
    made.close()


@pytest.fixture
def clickhouse_on(disk: Disk) -> Iterator[str]:
    """The URL of a server whose data lies on that disk."""
    server = local_clickhouse(lambda _words: None)
    server.command = [
        str(disk.folder) if part == str(server.folder / "data") else part for part in server.command
    ]
    server.environment = disk.environment()
    try:
        server.start()
        yield server.url
    finally:
        server.kill()


def comes_to(setup: SetUp, expected: int) -> bool:
    """Whether all calls are counted, and sum up to so many."""
    with contextlib.suppress(AssertionError, KeyError):  # an answer of 503, for now
        return counted(setup) and total(setup) == expected
    return False


@pytest.mark.timeout(300)
def test_what_the_full_disk_of_a_server_stops_goes_on_by_itself(
    disk: Disk, clickhouse_on: str, kafka: str, postgres: str, tmp_path: Path
) -> None:
    (tmp_path / "roles").mkdir()
    setup = distributed(tmp_path / "roles", Servers(kafka, clickhouse_on, postgres))
    try:
        with telling(setup):
            setup.start()
            setup.control.made("/api/v3/metering/meters", CALLS)
            assert post(setup, "before") == 202
            until("the events count", WITHIN_S, lambda: comes_to(setup, EACH))
            disk.fill()
            assert post(setup, "during") == 202, "the log has a disk of its own"
            until("it is met", WITHIN_S, lambda: disk.hit >= 3)
            assert not comes_to(setup, 2 * EACH)
            assert setup.ingest.ask("GET", "/readyz").status == 200
            disk.spare()
            until("all counts", WITHIN_S, lambda: comes_to(setup, 2 * EACH))
            assert post(setup, "after") == 202
            until("what comes later counts", WITHIN_S, lambda: comes_to(setup, 3 * EACH))
            assert all(process.ended() is None for process in setup.processes.values())
            assert is_clean(setup)
    finally:
        setup.kill()
