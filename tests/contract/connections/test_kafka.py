"""The log on brokers that ask for certificates and logins, with settings as people write them."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from meterline.backends.kafka.inbox import InboxWatch
from meterline.backends.kafka.log import KafkaLog, open_kafka_log
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience, RetryTimes
from meterline.runtime.wiring.connections import kafka_security
from tests.contract.connections.authority import Authority, Pair, replaced
from tests.contract.connections.secured_kafka import PASSWORD, REAUTH_MS, USER, SecuredKafka, token

HASTY = RetryTimes(first_s=0.001, longest_s=0.01, tell_s=10)
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
RETENTION_MS = 3_600_000


@pytest.fixture
def login(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """The settings of each mechanism."""
    password, held = tmp_path / "password", tmp_path / "token"
    password.write_text(f"{PASSWORD}\n")
    held.write_text(token(600))
    by_password = {"log_user": USER, "log_password_file": password}
    ways: dict[str, dict[str, Any]] = {it: {"log_sasl": it, **by_password} for it in SASL[:3]}
    return {**ways, "OAUTHBEARER": {"log_sasl": "OAUTHBEARER", "log_token_file": held}}


def settings(address: str, authority: Authority, more: dict[str, Any]) -> Settings:
    return Settings(log_url=f"kafka://{address}", log_tls=True, log_ca_file=authority.file, **more)


async def opened(given: Settings) -> KafkaLog:
    topic = f"log_{uuid4().hex}"
    security = kafka_security(given)
    return await open_kafka_log(given.kafka_servers, topic, 1, RETENTION_MS, security=security)


async def check_log(log: KafkaLog) -> None:
    await log.append(0, b"one")
    assert [record.value for record in await log.read(0, 0, 10)] == [b"one"]
    assert await log.end(0) == 1
    await log.close()


async def test_a_broker_that_asks_for_a_certificate(
    secured_kafka: SecuredKafka, authority: Authority, client: Pair
) -> None:
    shown = {"log_cert_file": client.cert, "log_key_file": client.key}
    await check_log(await opened(settings(secured_kafka.mutual, authority, shown)))


async def test_a_certificate_and_its_key_may_be_one_file(
    secured_kafka: SecuredKafka, authority: Authority, client: Pair
) -> None:
    shown = {"log_cert_file": client.both}
    await check_log(await opened(settings(secured_kafka.mutual, authority, shown)))


@pytest.mark.parametrize("mechanism", SASL)
async def test_a_login_by_each_mechanism(
    secured_kafka: SecuredKafka,
    authority: Authority,
    login: dict[str, dict[str, Any]],
    mechanism: str,
) -> None:
    given = settings(secured_kafka.sasl, authority, login[mechanism])
    await check_log(await opened(given))
    watch = InboxWatch(given.kafka_servers, "nobody", ["none"], kafka_security(given))
    with pytest.raises(Unsuitable, match="there is no inbox topic none"):
        await watch.check()


async def refused(given: Settings) -> str:
    """The words of a start that is refused."""
    waiting = Patience(given, asyncio.Event(), HASTY)
    with pytest.raises(Unsuitable) as ended:
        await waiting.wait("log", lambda: opened(given))
    return str(ended.value)


async def test_a_start_says_what_is_wrong_and_which_setting(
    secured_kafka: SecuredKafka,
    authority: Authority,
    client: Pair,
    login: dict[str, dict[str, Any]],
    tmp_path: Path,
) -> None:
    shown = {"log_cert_file": client.cert, "log_key_file": client.key}
    stranger = Authority(tmp_path, "stranger")
    files = "Correct log_ca_file, log_cert_file or log_key_file, then start again"
    told = await refused(settings(secured_kafka.mutual, stranger, shown))
    assert "TLS: the server's certificate is not accepted: " in told
    assert files in told
    told = await refused(settings(secured_kafka.mutual, authority, {}))
    assert "TLS: the server refuses the certificate of this process" in told
    assert files in told
    for mechanism in SASL[:3]:
        wrong = {**login[mechanism], "log_user": "nobody"}
        told = await refused(settings(secured_kafka.sasl, authority, wrong))
        assert "login refused: " in told
        assert "Correct log_sasl, log_user, log_password_file or log_token_file" in told
    assert PASSWORD not in told


async def test_a_password_that_is_changed_while_it_runs(
    secured_kafka: SecuredKafka, authority: Authority, login: dict[str, dict[str, Any]]
) -> None:
    given = settings(secured_kafka.sasl, authority, login["SCRAM-SHA-512"])
    log = await opened(given)
    accepted = 0

    async def append() -> None:
        nonlocal accepted
        with suppress(Unavailable):
            await log.append(0, b"one")
            accepted += 1

    await append()
    assert accepted == 1
    await asyncio.to_thread(secured_kafka.change_password, "second-password")
    try:
        path: Path = login["SCRAM-SHA-512"]["log_password_file"]
        replaced(path, "second-password")
        await asyncio.sleep(REAUTH_MS / 1_000)  # by then no connection is logged in by the first
        async with asyncio.timeout(60):
            while accepted < 4:
                await append()
                assert await log.end(0) >= accepted
    finally:
        await asyncio.to_thread(secured_kafka.change_password, PASSWORD)
        await log.close()


async def test_a_token_that_is_renewed_while_it_runs(
    secured_kafka: SecuredKafka, authority: Authority, login: dict[str, dict[str, Any]]
) -> None:
    path: Path = login["OAUTHBEARER"]["log_token_file"]
    replaced(path, token(REAUTH_MS // 1_000 + 2))
    log = await opened(settings(secured_kafka.sasl, authority, login["OAUTHBEARER"]))
    await log.append(0, b"one")
    replaced(path, token(600))
    await asyncio.sleep(REAUTH_MS / 1_000 + 2)  # the first token is of no use any more
    async with asyncio.timeout(60):
        await log.append(0, b"two")
    assert [record.value for record in await log.read(0, 0, 10)] == [b"one", b"two"]
    await log.close()
