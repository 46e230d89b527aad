"""What the doctor says of real servers, before `migrate` and after it, and of what is wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from click.testing import CliRunner
from pydantic import SecretStr

from meterline.runtime.cli import main
from meterline.runtime.commands.doctor.command import findings
from meterline.runtime.commands.doctor.finding import Finding, Level
from meterline.runtime.roles.migrate_all import migrate_all
from meterline.runtime.settings.reading import Settings
from tests.contract.conftest import fresh_database
from tests.services.local import nobody_at


@pytest.fixture
async def settings(
    kafka: str, clickhouse: str, postgres: str, tmp_path: Path
) -> AsyncIterator[Settings]:
    name = f"doctor_{uuid4().hex}"
    async with fresh_database(postgres) as url:
        yield Settings(
            data_dir=tmp_path,
            log_url=f"kafka://{kafka}",
            log_topic=name,
            partitions=2,
            usage_url=f"{clickhouse.rstrip('/')}/{name}",
            control_url=url,
            secret_key=SecretStr("x" * 32),
        )


async def found(settings: Settings) -> list[Finding]:
    return [finding async for finding in findings(settings)]


def faults(all_of_them: list[Finding]) -> dict[str, str]:
    return {it.part: it.text for it in all_of_them if it.level is Level.FAULT}


async def test_before_migrate_it_says_so_of_each_store_and_after_it_nothing_is_wrong(
    settings: Settings,
) -> None:
    before = faults(await found(settings))
    assert set(before) == {"Kafka", "ClickHouse", "PostgreSQL"}
    for text in before.values():
        assert "`meterline migrate`" in text
    await migrate_all(settings, asyncio.Event())
    after = await found(settings)
    assert faults(after) == {}
    told = [(it.part, it.text) for it in after]
    for part in ("ClickHouse", "PostgreSQL"):
        assert (part, "its clock agrees within 1000 ms") in told
        assert any(it.startswith("version ") for name, it in told if name == part)
        assert any(
            it.startswith("the user may read and write") for name, it in told if name == part
        )
    assert ("Kafka", f"topic {settings.log_topic} can hold the log") in told
    other = settings.model_copy(update={"partitions": 3})
    assert (
        "has 2 partitions, the settings say 3: set partitions to 2"
        in faults(await found(other))["Kafka"]
    )


async def test_a_topic_that_cannot_hold_the_log_is_told_with_the_command(
    settings: Settings, kafka: str
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    wrong = {"cleanup.policy": "compact"}
    await admin.create_topics([NewTopic(settings.log_topic, 2, 1, topic_configs=wrong)])
    await admin.close()
    told = ""
    async with asyncio.timeout(60):
        while "kafka-configs.sh" not in told:  # brokers learn of a new topic one by one
            told = faults(await found(settings))["Kafka"]
    assert "message.timestamp.type=LogAppendTime,cleanup.policy=delete" in told


async def test_rights_that_a_user_of_postgresql_lacks_are_named(
    settings: Settings, postgres: str
) -> None:
    await migrate_all(settings, asyncio.Event())
    owner = await asyncpg.connect(settings.control_url.replace("+asyncpg", ""))
    user = f"user_{uuid4().hex}"
    await owner.execute(f"CREATE USER {user}")
    await owner.execute(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {user}")
    try:
        address = settings.control_url.rpartition("@")[2]
        given = settings.model_copy(update={"control_url": f"postgresql://{user}@{address}"})
        told = faults(await found(given))
        assert told.keys() == {"PostgreSQL"}
        assert (
            "the user may not DELETE, UPDATE its tables: see docs/operations.md"
            in told["PostgreSQL"]
        )
    finally:
        await owner.execute(f"DROP OWNED BY {user}")
        await owner.execute(f"DROP USER {user}")
        await owner.close()
    assert postgres


async def test_servers_that_cannot_be_used_are_told_with_the_reason(
    settings: Settings,
) -> None:
    with nobody_at() as port:
        away = settings.model_copy(
            update={
                "log_url": f"kafka://127.0.0.1:{port}",
                "usage_url": f"http://127.0.0.1:{port}/db",
                "control_url": f"postgresql://u@127.0.0.1:{port}/db",
                "webhook_proxy": f"http://127.0.0.1:{port}",
            }
        )
        told = faults(await found(away))
    assert (
        told["Kafka"]
        == f"Kafka at 127.0.0.1:{port}: connection refused. Start it, or correct log_url"
    )
    assert told["ClickHouse"].endswith("connection refused. Start it, or correct usage_url")
    assert told["PostgreSQL"].endswith("connection refused. Start it, or correct control_url")
    assert f"webhook_proxy 127.0.0.1:{port} cannot be reached" in told["webhooks"]


def test_the_command_prints_every_finding_and_fails_where_something_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fine = CliRunner().invoke(main, ["doctor"])
    assert fine.exit_code == 0
    assert fine.output.splitlines()[-1] == "0 faults, 0 warnings"
    (tmp_path / "meterline-data").mkdir()
    (tmp_path / "meterline-data/secret.key").write_text("")
    (tmp_path / "meterline-data/secret.key").chmod(0o644)
    warned = CliRunner().invoke(main, ["doctor"])
    assert warned.exit_code == 0
    assert f"run `chmod 600 {tmp_path}/meterline-data/secret.key`" in warned.output
    assert "0 faults, 1 warnings" in warned.output
    with nobody_at() as port:
        monkeypatch.setenv("METERLINE_LOG_URL", f"kafka://127.0.0.1:{port}")
        broken = CliRunner().invoke(main, ["doctor"])
    assert broken.exit_code == 1
    assert "secret_key is not set" in broken.output
    monkeypatch.setenv("METERLINE_PORT", "x")
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 2
