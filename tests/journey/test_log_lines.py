"""No payload, no subject and no secret is in what processes print, at the level that tells most:
while senders send what is no event, receivers fail, and stores refuse rows or lost their tables.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.keyed import SETTINGS
from tests.journey.marked import Marked, Marks, refuse_rows, refusing, take_away
from tests.journey.processes import PROGRAM, completed
from tests.journey.setups import Servers, SetUp, distributed, embedded, started, telling
from tests.services.local import nobody_at

WITHIN_S: Final = 120.0
REFUSED_WITHIN_S: Final = 60.0


@pytest.fixture(scope="module")
def marks() -> Marks:
    return Marks()


@pytest.fixture(scope="module", params=SETUPS)
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, marks: Marks
) -> Iterator[SetUp]:
    folder = tmp_path_factory.mktemp(f"marked-{request.param}")
    more = {**SETTINGS, "METERLINE_SECRET_KEY": f"{marks.of('secret_key')}-and-more-of-it"}
    if request.param == "embedded":
        made = embedded(folder, more)
    else:
        made = distributed(folder, request.getfixturevalue("servers"), more)
    with started(made):
        yield made


def test_nothing_that_was_told_is_in_a_log(setup: SetUp, marks: Marks) -> None:
    with telling(setup):
        with refusing(marks.of("the answer of a receiver")) as receiver:
            marked = Marked(setup, marks, receiver)
            marked.begin()
            marked.all_ways("all is well")
            until("it is counted", WITHIN_S, marked.caller.totals)
            until("deliveries fail", WITHIN_S, lambda: any(map(is_of_a_run, receiver.came)))
        marked.all_ways("the receiver is gone")
        until("it is noticed", WITHIN_S, lambda: notes(setup, "event=endpoint_down"))
        refuse_rows(setup)
        marked.all_ways("rows are refused")
        until("it is noticed", WITHIN_S, lambda: notes(setup, "IntegrityError"))
        take_away(setup)
        with suppress(OSError):  # a process ends where nothing that it needs is there
            marked.all_ways("tables are gone")
        until("it is noticed", WITHIN_S, lambda: notes(setup, "no such table", "does not exist"))
    words = {name: process.log_path.read_text() for name, process in setup.processes.items()}
    assert all("event=ready" in text for text in words.values())
    assert "level=debug" in "".join(words.values()), "everything that can be told is told"
    assert {name: marks.found_in(text) for name, text in words.items()} == {
        name: {} for name in words
    }


def is_of_a_run(body: bytes) -> bool:
    """Whether a delivery is no test."""
    return bool(json.loads(body)["run"]["trigger"] == "manual")


def notes(setup: SetUp, *words: str) -> bool:
    """Whether a process has told of it, in any of these words."""
    said = "".join(process.log_path.read_text() for process in setup.processes.values())
    return any(word in said for word in words)


def test_nothing_of_a_setting_that_is_refused_is_told(
    servers: Servers, marks: Marks, tmp_path: Path
) -> None:
    told = marks.of
    postgres = servers.postgres.split("@")[-1]
    clickhouse = servers.clickhouse.split("//")[-1].rstrip("/")
    with nobody_at() as port:
        cases = {
            "CONTROL_URL": [
                f"postgresql://user:{told('a password, nobody there')}@127.0.0.1:{port}/base",
                f"postgresql://nobody:{told('a password that is wrong')}@{postgres}",
                f"postgresql://user:{told('a password, no port')}@127.0.0.1:port/base",
                f"mysql://user:{told('a password, no store of ours')}@127.0.0.1/base",
                told("a URL that is none"),
            ],
            "USAGE_URL": [
                f"http://user:{told('a password, nobody there')}@127.0.0.1:{port}/base",
                f"http://nobody:{told('a password that is wrong')}@{clickhouse}/base",
                f"http://user:{told('a password, no port')}@127.0.0.1:port/base",
                f"http://user:{told('a password with a slash')}/more@127.0.0.1/base",
                f"ftp://user:{told('a password, no store of ours')}@127.0.0.1/base",
            ],
            "LOG_URL": [f"kafka://user:{told('a password of Kafka')}@127.0.0.1:{port}"],
            "SECRET_KEY": [told("a key that is too short")],
            "SECRET_KYE": [told("a key under a wrong name")],
            "TRACES_URL": [f"http://user:{told('a password of a collector')}@127.0.0.1/traces"],
            "WEBHOOK_PROXY": [f"ftp://user:{told('a password of a proxy')}@127.0.0.1"],
        }
        for setting, values in cases.items():
            for value in values:
                given = {
                    "METERLINE_DATA_DIR": str(tmp_path),
                    "METERLINE_START_TIMEOUT_S": "1",
                    "METERLINE_LOG_LEVEL": "debug",
                    f"METERLINE_{setting}": value,
                }
                done = completed([str(PROGRAM), "migrate"], tmp_path, given, REFUSED_WITHIN_S)
                assert done.returncode != 0, f"{setting}: {done.stdout}"
                assert "meterline: " in done.stderr
                assert marks.found_in(done.stdout + done.stderr) == {}, setting
