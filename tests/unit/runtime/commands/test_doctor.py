"""The rules of the doctor, and its look at the way to a receiver."""

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

from meterline.runtime.commands.doctor.command import doctor, findings
from meterline.runtime.commands.doctor.finding import (
    Level,
    of_clock,
    of_rights,
    of_topic_rights,
    of_version,
)
from meterline.runtime.settings.reading import Settings


@pytest.mark.parametrize("theirs_ms", [9_000, 10_000, 10_050, 10_100, 11_100])
def test_clocks_that_agree_within_the_skew(theirs_ms: int) -> None:
    assert of_clock("PostgreSQL", theirs_ms, (10_000, 10_100), 1_000).level is Level.OK


@pytest.mark.parametrize(
    ("theirs_ms", "text"), [(8_999, "1001 ms behind"), (11_101, "1001 ms ahead of")]
)
def test_clocks_that_do_not(theirs_ms: int, text: str) -> None:
    finding = of_clock("PostgreSQL", theirs_ms, (10_000, 10_100), 1_000)
    assert finding.level is Level.FAULT
    assert f"its clock is {text} this machine's, and clock_skew_ms is 1000" in finding.text


@pytest.mark.parametrize(
    ("part", "version", "level"),
    [
        ("ClickHouse", "26.7.2.1", Level.OK),
        ("ClickHouse", "27.1", Level.OK),
        ("ClickHouse", "26.3.1", Level.WARNING),
        ("PostgreSQL", "18.4", Level.OK),
        ("PostgreSQL", "15.12", Level.WARNING),
    ],
)
def test_versions(part: str, version: str, level: Level) -> None:
    assert of_version(part, version).level is level


def test_rights_are_named_with_what_to_do() -> None:
    assert of_rights("Kafka", [], "topic t", "add them").level is Level.OK
    finding = of_rights("Kafka", ["WRITE", "READ"], "topic t", "add them")
    assert finding.line == "fault    Kafka       the user may not READ, WRITE topic t: add them"


LOOKING = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})


@pytest.mark.parametrize(
    ("role", "rights", "missing"),
    [
        ("ingest", {"WRITE"}, ""),
        ("ingest", {"READ"}, "WRITE"),
        ("dispatch", set(), ""),
        ("aggregate", {"READ"}, "WRITE"),
        ("control", {"WRITE"}, "READ"),
        ("control", {"READ", "WRITE"}, ""),
        (None, {"READ", "WRITE"}, ""),
        (None, {"WRITE"}, "READ"),
    ],
)
def test_a_role_needs_its_own_rights_on_the_topic(
    role: str | None, rights: set[str], missing: str
) -> None:
    finding = of_topic_rights("Kafka", "t", LOOKING | rights, role)
    assert finding.level is (Level.FAULT if missing else Level.OK), finding.text
    if missing:
        assert f"the user may not {missing} topic t" in finding.text
        assert ("--role" in finding.text) == (role is None)
    blind = of_topic_rights("Kafka", "t", frozenset(rights), role)
    assert blind.level is Level.FAULT, "each role looks at the topic"


async def test_a_gateway_needs_no_usage_store_and_no_control_store_without_keys(
    tmp_path: Path,
) -> None:
    away = Settings(
        data_dir=tmp_path,
        log_url="kafka://127.0.0.1:1",
        usage_url="http://127.0.0.1:1/db",
        control_url="postgresql://u@127.0.0.1:1/db",
    )
    with_keys = away.model_copy(update={"access_mode": "keys"})
    stores = {"Kafka", "ClickHouse", "PostgreSQL"}
    for settings, role, parts in (
        (away, "ingest", {"Kafka"}),
        (with_keys, "ingest", {"Kafka", "PostgreSQL"}),
        (away, "dispatch", stores),
        (away, None, stores),
    ):
        told = [it async for it in findings(settings, role=role)]
        assert {it.part for it in told if it.level is Level.FAULT} & stores == parts


async def test_folders_are_told_whole_for_the_doctor_may_be_called_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = [it.text async for it in findings(Settings())]
    for name, folder in (("data_dir", "meterline-data"), ("seen_dir", "meterline-data/seen")):
        (found,) = (one for one in told if one.startswith(f"{name}: "))
        assert f" free at {tmp_path / folder}; the folder is made at the first start" in found
    assert any(one.startswith(f"{tmp_path}/meterline-data/secret.key ") for one in told)
    (tmp_path / "meterline-data/seen").mkdir(parents=True)
    assert not [it.text async for it in findings(Settings()) if "the folder is made" in it.text]


async def test_a_webhook_gets_out_if_the_receiver_answers_anything(tmp_path: Path) -> None:
    bodies = []

    async def refuse(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.Response(status=401)

    application = web.Application()
    application.add_routes([web.post("/", refuse)])
    settings = Settings(data_dir=tmp_path)
    async with TestServer(application) as server:
        url = str(server.make_url("/"))
        *_, found = [it async for it in findings(settings, url)]
    assert found.level is Level.OK
    assert found.text.startswith("127.0.0.1 was reached: it answered 401 after ")
    assert bodies == [{"type": "meterline.doctor"}], "nobody books that"
    *_, found = [it async for it in findings(settings, url)]
    assert found.level is Level.FAULT
    assert "can reach the report's URL" in found.text
    *_, found = [it async for it in findings(settings, "http://10.0.0.1/")]
    assert found.level is Level.FAULT
    assert "webhook_networks_allowed" in found.text


def test_what_is_no_url_of_a_receiver_is_refused() -> None:
    done = CliRunner().invoke(doctor, ["--webhook", "billing.example.com"])
    assert done.exit_code == 2
    assert "such as https://billing.example.com/" in done.output
