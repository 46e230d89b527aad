"""What Faust is given is what every other client of Kafka has."""

from pathlib import Path

import pytest
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth

from aggregator.drivers.faust_credentials import credentials
from meterline.runtime.connections.kafka import KafkaSecurity
from meterline.runtime.connections.tls import FreshContext, TlsFiles
from meterline.runtime.connections.watched import SecretFile
from tests.contract.connections.authority import Authority, replaced


@pytest.mark.parametrize("with_tls", [True, False])
@pytest.mark.parametrize(
    "mechanism", [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
)
def test_faust_spreads_the_same_arguments(
    tmp_path: Path, mechanism: str | None, *, with_tls: bool
) -> None:
    tls = FreshContext(TlsFiles(Authority(tmp_path, "authority").file)) if with_tls else None
    secret = SecretFile(replaced(tmp_path / "secret", "secret"))
    security = KafkaSecurity(tls, mechanism, "user", secret)
    given = dict(credentials_to_aiokafka_auth(credentials(security)))
    assert {name: value for name, value in given.items() if value is not None} == dict(security)
