"""A server of their own for tests that change much, and a receiver that takes deliveries."""

import json
from collections.abc import Iterator

import pytest

from tests.console.filling import fill
from tests.journey.client import Server
from tests.journey.receiver import Receiver, receiving
from tests.journey.setups import SetUp, embedded, started


@pytest.fixture(scope="package")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    """An embedded server with usage, refusals and a sync whose receiver is away.
    Late usage is told after a second. One meter is in its settings.
    """
    meters = [{"key": "of_file", "aggregation": "count", "event_type": "completion"}]
    more = {"METERLINE_REVISION_PAUSE_S": "1", "METERLINE_METERS": json.dumps(meters)}
    with started(embedded(tmp_path_factory.mktemp("doing"), more)) as setup:
        fill(setup.control)
        yield setup


@pytest.fixture(scope="package")
def console(product: SetUp) -> str:
    """Its address."""
    return product.control.url


@pytest.fixture(scope="package")
def receiver() -> Iterator[Receiver]:
    """Takes deliveries on loopback."""
    with receiving() as one:
        yield one


@pytest.fixture
def server(console: str) -> Server:
    """The same server, by its API."""
    return Server(console)
