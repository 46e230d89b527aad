"""Fixtures of the journeys: the file of flights, the receiver, and each set-up on its way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.flights import write_ndjson
from tests.journey.journey import Journey
from tests.journey.receiver import Receiver, receiving
from tests.journey.setups import Servers, SetUp, distributed, embedded
from tests.services.service import Service

SETUPS = ("embedded", "distributed")


@pytest.fixture(scope="session")
def flights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "flights.ndjson"
    write_ndjson(path)
    return path


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@contextmanager
def running(setup: SetUp) -> Iterator[SetUp]:
    """Start a set-up; whatever happens, none of its processes is left."""
    try:
        setup.start()
        yield setup
    except BaseException as error:
        error.add_note(setup.logs())
        raise
    finally:
        setup.kill()


@pytest.fixture(scope="session")
def servers(
    kafka_service: Service, clickhouse_service: Service, postgres_service: Service
) -> Servers:
    return Servers(kafka_service.url, clickhouse_service.url, postgres_service.url)


@pytest.fixture(scope="session")
def embedded_journey(
    tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, flights_file: Path
) -> Iterator[Journey]:
    with running(embedded(tmp_path_factory.mktemp("embedded"))) as setup:
        journey = Journey(setup, receiver.mailbox(setup.name))
        journey.go(flights_file)
        yield journey


@pytest.fixture(scope="session")
def distributed_journey(
    tmp_path_factory: pytest.TempPathFactory,
    receiver: Receiver,
    flights_file: Path,
    servers: Servers,
) -> Iterator[Journey]:
    with running(distributed(tmp_path_factory.mktemp("distributed"), servers)) as setup:
        journey = Journey(setup, receiver.mailbox(setup.name))
        journey.go(flights_file)
        yield journey


@pytest.fixture(scope="session", params=SETUPS)
def journey(request: pytest.FixtureRequest) -> Journey:
    """Each set-up, after the whole journey."""
    went: Journey = request.getfixturevalue(f"{request.param}_journey")
    return went
