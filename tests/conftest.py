"""Fixtures for every test: the three real servers, each started when first asked for."""

import sys
from collections.abc import Iterator

import pytest

from tests.services.choose import open_service
from tests.services.service import Service, ServiceError


def _serve(kind: str, request: pytest.FixtureRequest) -> Iterator[Service]:
    """Start a server for the session; a server that cannot be had fails the test, never skips."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        if capture is None:
            sys.stderr.write(f"\nservices: {words}\n")
            return
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\nservices: {words}\n")
            sys.stderr.flush()

    try:
        service = open_service(kind, say)
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        try:
            service.start()
        except ServiceError as error:
            pytest.fail(str(error), pytrace=False)
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def kafka_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Kafka, for tests that kill and restart it; leave it running."""
    yield from _serve("kafka", request)


@pytest.fixture(scope="session")
def clickhouse_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """ClickHouse, for tests that kill and restart it; leave it running."""
    yield from _serve("clickhouse", request)


@pytest.fixture(scope="session")
def postgres_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """PostgreSQL, for tests that kill and restart it; leave it running."""
    yield from _serve("postgres", request)


@pytest.fixture(scope="session")
def kafka(kafka_service: Service) -> str:
    """Bootstrap servers, `host:port`. Use fresh topics; topics are not made by themselves."""
    return kafka_service.url


@pytest.fixture(scope="session")
def clickhouse(clickhouse_service: Service) -> str:
    """URL of the HTTP interface, `http://host:port`. Use a fresh database."""
    return clickhouse_service.url


@pytest.fixture(scope="session")
def postgres(postgres_service: Service) -> str:
    """SQLAlchemy URL, `postgresql+asyncpg://...`. Use a fresh schema or database."""
    return postgres_service.url


@pytest.fixture(scope="session")
def chdb_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of the embedded usage store, one for all tests: chDB allows one folder a process.

    Take a log number and meter revisions of your own (`fresh_numbers`).
    """
    return f"chdb:{tmp_path_factory.mktemp('chdb')}"


@pytest.fixture(scope="session")
def fresh_numbers() -> Iterator[int]:
    """Numbers that no other test of this process was given."""
    return iter(range(1, 60_000))
