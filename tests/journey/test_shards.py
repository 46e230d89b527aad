"""A usage store of two ClickHouse servers: one is killed while events arrive, and comes back.
Nothing is lost or counted twice, and no answer is smaller meanwhile. An archive is spread anew.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.journey.refusal import refused
from tests.journey.test_archives import METER, PACE, PROGRAM, V3, Place
from tests.services.local import free_port
from tests.services.shards import CLUSTER, Shards, shards

EVENTS = 4_000
BEFORE = 1_500
WITHIN_S = 120.0
QUERY = f"{V3}/meters/tokens/query"


@pytest.fixture(scope="module")
def two() -> Iterator[Shards]:
    with shards() as made:
        yield made


def place(folder: Path, two: Shards, name: str) -> Place:
    """One process with its own log and control store, and databases on both servers."""
    first, second = two.urls(name)
    settings = {
        **PACE,
        "METERLINE_DATA_DIR": str(folder / name / "data"),
        "METERLINE_USAGE_URL": first,
        "METERLINE_USAGE_SHARDS": second,
        "METERLINE_USAGE_CLUSTER": CLUSTER,
    }
    process = role_process("up", ["up"], folder / name, free_port(), settings, PROGRAM)
    return Place(folder, settings, process, Server(process.url))


def refusal(server: Server) -> str:
    """What a question is answered with that cannot be answered now; "" where it is answered."""
    answer = server.ask("POST", QUERY, {})
    assert answer.status in {200, 503}, answer.body
    return str(json.loads(answer.body)["detail"]) if answer.status == 503 else ""


def rows(two: Shards, name: str) -> list[int]:
    """How many events each server has."""
    asked = "/?query=SELECT+count()+FROM+events+FINAL&database="
    return [int(Server(one.url).get(f"{asked}{name}").body) for one in two.servers]


def test_a_server_is_killed_and_comes_back(tmp_path: Path, two: Shards) -> None:
    at = place(tmp_path, two, "killed")
    try:
        at.process.start()
        at.server.made(f"{V3}/meters", METER)
        at.send(0, BEFORE)
        at.counted(BEFORE)
        with ThreadPoolExecutor(1) as thread:
            loading = thread.submit(at.send, BEFORE, EVENTS)
            two.servers[1].kill()
            said = until("it is told", WITHIN_S, lambda: refusal(at.server))
            assert "A store that this request needs did not respond" in said
            assert "a server of the usage store does not answer" in at.process.log_path.read_text()
            loading.result()
        two.servers[1].start()
        account = at.exact(EVENTS)
        assert account["duplicate"] == 0
        assert sum(rows(two, "killed")) == EVENTS
        assert min(rows(two, "killed")) > EVENTS // 4, "the partitions are on both"
        at.send(0, EVENTS)
        until("all came again", WITHIN_S, lambda: at.counted(EVENTS)["duplicate"] == EVENTS)
        assert at.exact(EVENTS)["duplicate"] == EVENTS
        at.run("backup", str(tmp_path / "archive"))
    except BaseException as error:
        error.add_note(at.process.log_path.read_text(errors="replace")[-3000:])
        raise
    finally:
        at.process.kill()
    for setting in ("SHARDS", "CLUSTER"):
        del at.process.environment[f"METERLINE_USAGE_{setting}"]
    assert "the usage store has at least 2 servers" in refused(at.process)
    again = place(tmp_path, two, "again")
    (again_data := tmp_path / "again" / "data").mkdir()
    (again_data / "secret.key").write_text((tmp_path / "killed/data/secret.key").read_text())
    (again_data / "secret.key").chmod(0o600)
    assert again.run("restore", str(tmp_path / "archive")) == "", "no difference"
    assert sum(rows(two, "again")) == EVENTS
    try:
        again.process.start()
        again.exact(EVENTS)
    finally:
        again.process.kill()
