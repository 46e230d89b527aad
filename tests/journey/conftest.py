"""Fixtures of the journeys: the file of flights, the receiver, and each set-up on its way."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from demo.flights import write_ndjson
from tests.journey.journey import Journey
from tests.journey.moved_clock import MovedClock
from tests.journey.receiver import Receiver, receiving
from tests.journey.scheduled import Scheduled, moved_boxes
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling
from tests.services.local import spawned
from tests.services.service import Service
from tests.side_by_side import group

SETUPS = ("embedded", "distributed")


@pytest.fixture(scope="package")
def flights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights.ndjson"
    write_ndjson(path)
    return path


@pytest.fixture(scope="package")
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture(scope="package")
def servers(
    kafka_service: Service, clickhouse_service: Service, postgres_service: Service
) -> Servers:
    return Servers(kafka_service.url, clickhouse_service.url, postgres_service.url)


@pytest.fixture(scope="package")
def journeys(
    tmp_path_factory: pytest.TempPathFactory,
    receiver: Receiver,
    flights_file: Path,
    servers: Servers,
) -> Iterator[Mapping[str, Future[Journey]]]:
    """Both journeys, made at the same time: each leaves much of the machine idle. They end with
    the tests of this folder: idle they still take a sixth of a core. Their processes are started
    as users and containers start them, not forked.
    """
    place = tmp_path_factory.mktemp("distributed")
    setups = (
        embedded(tmp_path_factory.mktemp("embedded"), begin=spawned),
        distributed(place, servers, with_inbox=True, begin=spawned),
    )

    def went(setup: SetUp) -> Journey:
        journey = Journey(setup, receiver.mailbox(setup.name))
        with telling(setup):
            setup.start()
            journey.go(flights_file)
        return journey

    try:
        with ThreadPoolExecutor(len(setups)) as threads:
            made = {setup.name: threads.submit(went, setup) for setup in setups}
        yield made
    finally:
        for setup in setups:
            setup.kill()


@pytest.fixture(scope="package")
def embedded_journey(journeys: Mapping[str, Future[Journey]]) -> Journey:
    return journeys["embedded"].result()


@pytest.fixture(scope="package")
def distributed_journey(journeys: Mapping[str, Future[Journey]]) -> Journey:
    return journeys["distributed"].result()


@pytest.fixture(scope="package", params=SETUPS)
def journey(request: pytest.FixtureRequest) -> Journey:
    """Each set-up, after the whole journey."""
    went: Journey = request.getfixturevalue(f"{request.param}_journey")
    return went


@pytest.fixture(scope="session")
def waiting(request: pytest.FixtureRequest) -> frozenset[str]:
    """The groups in which a test looks at what comes due by itself."""
    items = request.session.items
    return frozenset(group(one.nodeid) for one in items if one.path.name == "test_by_schedule.py")


@pytest.fixture(autouse=True)
def begun(request: pytest.FixtureRequest, waiting: frozenset[str]) -> None:
    """What comes due by itself is begun with the first test that runs in one process with it."""
    if group(request.node.nodeid) in waiting:
        request.getfixturevalue("scheduled")


@pytest.fixture(scope="package")
def scheduled(
    receiver: Receiver, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Scheduled]]]:
    """Both set-ups on their way through minutes, hours and days: nearly all of it is waiting, and
    other tests go on meanwhile.
    """
    clocks = {name: MovedClock(tmp_path_factory.mktemp(f"clock-{name}")) for name in SETUPS}
    folder = tmp_path_factory.mktemp("scheduled")
    setups = {
        "embedded": embedded(folder / "embedded", program=clocks["embedded"].program),
        "distributed": distributed(folder, servers, program=clocks["distributed"].program),
    }

    def went(name: str) -> Scheduled:
        boxes = moved_boxes(receiver, f"scheduled-{name}", clocks[name])
        way = Scheduled(setups[name], clocks[name], boxes)
        try:
            with telling(setups[name]):
                way.go()
        finally:
            setups[name].kill()
        return way

    with ThreadPoolExecutor(len(SETUPS)) as threads:
        try:
            yield {name: threads.submit(went, name) for name in SETUPS}
        finally:
            for setup in setups.values():
                setup.kill()  # whoever is still on the way finds nothing there
