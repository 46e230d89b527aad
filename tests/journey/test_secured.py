"""The whole product on servers that ask for TLS, certificates and logins, all of which change while
it runs.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.contract.connections.authority import Authority, Pair, replaced
from tests.contract.connections.secured_kafka import PASSWORD, REAUTH_MS, USER, SecuredKafka
from tests.contract.connections.secured_postgres import (
    MAKE_USER,
    as_admin,
    product_url,
    secured_postgres,
)
from tests.contract.connections.tls_proxy import TlsProxy
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, telling
from tests.services.local import LocalService

METERS = "/api/v3/metering/meters"
EVENTS = "/api/v3/metering/events"
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
METER = {"key": "calls", "name": "Calls", "aggregation": "count", "event_type": "call"}
WITHIN_S = 240.0
SECOND = "second-password"


class Secured:
    """The product, and all that lets it in."""

    def __init__(self, folder: Path, clickhouse: str, stack: ExitStack) -> None:
        self.authority = Authority(folder, "authority")
        self.mine: Pair = self.authority.pair("first")
        self.kafka_password = replaced(folder / "kafka-password", PASSWORD)
        self.postgres_password = replaced(folder / "postgres-password", PASSWORD)
        self.kafka = SecuredKafka(self.authority)
        stack.callback(self.kafka.service.stop)
        self.kafka.service.start()
        self.postgres: LocalService = secured_postgres(self.authority, folder)
        stack.callback(self.postgres.stop)
        self.postgres.start()
        asyncio.run(as_admin(self.postgres, *MAKE_USER))
        upstream = urlsplit(clickhouse)
        address = (str(upstream.hostname), upstream.port or 0)
        proxy = TlsProxy(address, self.authority.pair("clickhouse"), self.authority)
        self.proxy = stack.enter_context(proxy.running())
        servers = Servers(self.kafka.plain, clickhouse, self.postgres.url)
        product = folder / "product"
        product.mkdir()
        self.setup: SetUp = distributed(product, servers, self._settings())
        stack.callback(self.setup.kill)

    def _settings(self) -> dict[str, str]:
        authority, mine = str(self.authority.file), self.mine
        given = {
            "LOG_URL": f"kafka://{self.kafka.sasl}",
            "LOG_TLS": "true",
            "LOG_SASL": "SCRAM-SHA-512",
            "LOG_USER": USER,
            "LOG_PASSWORD_FILE": str(self.kafka_password),
            "USAGE_URL": f"https://127.0.0.1:{self.proxy.port}/secured",
            "CONTROL_URL": product_url(self.postgres),
            "CONTROL_TLS": "true",
            "CONTROL_PASSWORD_FILE": str(self.postgres_password),
        }
        for store in ("LOG", "USAGE", "CONTROL"):
            given[f"{store}_CA_FILE"] = authority
        for store in ("USAGE", "CONTROL"):
            given[f"{store}_CERT_FILE"] = str(mine.cert)
            given[f"{store}_KEY_FILE"] = str(mine.key)
        return {f"METERLINE_{name}": value for name, value in given.items()}

    def change_everything(self) -> None:
        """New passwords and a new certificate; connections that are open have to come again."""
        replaced(self.kafka_password, SECOND)
        self.kafka.change_password(SECOND)
        replaced(self.postgres_password, SECOND)
        changed = f"ALTER USER {USER} PASSWORD '{SECOND}'"
        ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"
        asyncio.run(as_admin(self.postgres, changed, ended))
        later = self.authority.pair("second")
        replaced(self.mine.key, later.key.read_bytes())
        replaced(self.mine.cert, later.cert.read_bytes())
        self.proxy.cut()


@pytest.fixture
def secured(tmp_path: Path, clickhouse: str) -> Iterator[Secured]:
    with ExitStack() as stack:
        yield Secured(tmp_path, clickhouse, stack)


def wait_counted(setup: SetUp, events: int) -> None:
    def all_of_them() -> bool:
        answer = setup.control.ask("POST", f"{METERS}/calls/query", {})
        if answer.status != 200:
            return False  # a store may be away for a moment
        return sum(int(row["value"]) for row in answer.json["data"]) == events

    until("all are counted", WITHIN_S, all_of_them)


def send(setup: SetUp, begin: int, end: int) -> None:
    """Each event once or more often, until it is accepted."""
    batch = [
        {"specversion": "1.0", "id": str(n), "source": "s", "type": "call", "subject": f"u{n % 7}"}
        for n in range(begin, end)
    ]
    until(
        "events are accepted",
        WITHIN_S,
        lambda: setup.ingest.ask("POST", EVENTS, batch, BATCH).status == 202,
    )


def test_it_counts_on_while_passwords_and_certificates_change(secured: Secured) -> None:
    setup = secured.setup
    with telling(setup):
        setup.start()
        setup.control.made(METERS, METER)
        send(setup, 0, 100)
        wait_counted(setup, 100)
        assert set(secured.proxy.shown) == {"first"}
        secured.change_everything()
        for turn in range(3):  # longer than a login to Kafka lasts
            send(setup, 100 * (turn + 1), 100 * (turn + 2))
            wait_counted(setup, 100 * (turn + 2))
            time.sleep(REAUTH_MS / 1_000)
        assert secured.proxy.shown[-1] == "second"
        until("all is counted", WITHIN_S, lambda: setup.status["caught_up"])
        assert setup.status["account"]["new"] == 400
