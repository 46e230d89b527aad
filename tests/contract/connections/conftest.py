"""Fixtures: an authority, and servers that only take what it signed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.connections.authority import Authority, Pair
from tests.contract.connections.secured_kafka import SecuredKafka
from tests.contract.connections.secured_postgres import secured_postgres
from tests.services.local import LocalService


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that servers see, whoever they run as."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="package")
def authority(certificates: Path) -> Authority:
    return Authority(certificates, "authority")


@pytest.fixture(scope="package")
def client(authority: Authority) -> Pair:
    return authority.pair("client")


@pytest.fixture(scope="package")
def secured_kafka(authority: Authority) -> Iterator[SecuredKafka]:
    made = SecuredKafka(authority)
    try:
        made.service.start()
        yield made
    finally:
        made.service.stop()


@pytest.fixture(scope="package")
def postgres_with_tls(authority: Authority, certificates: Path) -> Iterator[LocalService]:
    service = secured_postgres(authority, certificates)
    try:
        service.start()
        yield service
    finally:
        service.stop()
