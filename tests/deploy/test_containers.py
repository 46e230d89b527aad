"""What the test of processes in turn asks of Docker, where an engine answers: it is recorded by a
command that runs nothing.

What this proves: the commands, and that compose.yaml has what they name. What it does not: that the
containers do as they are told.
"""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from meterline.runtime.settings.reading import Settings
from tests.deploy.test_compose import COMPOSE, SCHEMA
from tests.journey.composed import (
    CONTROL_PORT,
    DEPLOY,
    INGEST_PORT,
    PROJECT,
    SECRETS,
    THIS_MACHINE,
    Containers,
    engine_composes,
    in_containers,
    merged,
)
from tests.journey.setups import COMPOSED
from tests.services.service import ServiceError

pytestmark = pytest.mark.standard

SERVICES: dict[str, Any] = COMPOSE["services"]
# Says what it was asked, with what it was given; "inspect" tells an exit code.
DOCKER = """#!/bin/sh
echo "$*" >>"{log}"
echo "$METERLINE_SECRET_KEY" >>"{log}.keys"
case "$*" in
  inspect*) echo 143 ;;
  *" ps "*) echo c0ffee ;;
  *" kill nobody") echo "no such service: nobody" >&2; exit 1 ;;
  *" logs "*) echo "control-1 | event=ready" ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was asked of the command, a line each."""
    made = tmp_path / "asked"
    (tmp_path / "docker").write_text(DOCKER.format(log=made))
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return made


def asked(log: Path, containers: Containers) -> list[str]:
    """The commands without what is the same for all of `docker compose`."""
    files = f"--file {DEPLOY / 'compose.yaml'} --file {containers.more}"
    same = f"compose --project-name {PROJECT} {files} "
    return [line.removeprefix(same) for line in log.read_text().splitlines()]


def test_each_turn_is_a_command(log: Path, tmp_path: Path) -> None:
    with in_containers(tmp_path) as containers:
        assert containers.stop("dispatch-2") == 143
        containers.kill("ingest-1")
        containers.start("ingest-1")
        assert containers.logs() == "control-1 | event=ready\n"
        with pytest.raises(ServiceError, match="no such service: nobody"):
            containers.kill("nobody")
    names = " ".join(COMPOSED)
    assert asked(log, containers) == [
        f"up --build --detach --wait proxy {names}",
        "stop dispatch-2",
        "ps --all --quiet dispatch-2",
        "inspect --format {{.State.ExitCode}} c0ffee",
        "kill ingest-1",
        "up --detach --wait --no-deps --no-recreate ingest-1",
        f"logs --no-color --tail 40 {names}",
        "kill nobody",
        "down --volumes --timeout 1",
    ]
    keys = set(Path(f"{log}.keys").read_text().split())
    assert keys == {containers.given["METERLINE_SECRET_KEY"]}, "one for all commands"


def test_what_the_commands_name_is_in_the_compose_file() -> None:
    assert {"proxy", *COMPOSED} <= SERVICES.keys()
    needed = {part.split(":?")[0].split("}")[0] for part in json.dumps(COMPOSE).split("${")[1:]}
    assert set(SECRETS) == needed
    published = {one.split(":")[1] for one in SERVICES["proxy"]["ports"]}
    assert published == {str(INGEST_PORT), str(CONTROL_PORT)}
    assert COMPOSE["name"] != PROJECT, "what somebody runs is left alone"


def test_whoever_delivers_reaches_a_receiver_of_this_machine(log: Path, tmp_path: Path) -> None:
    whole = copy.deepcopy(COMPOSE)
    for name, more in merged()["services"].items():
        service = whole["services"][name]
        assert not service.keys() & (more.keys() - {"environment"}), "nothing is replaced"
        service |= {**more, "environment": {**service["environment"], **more["environment"]}}
        (allowed,) = more["environment"].items()
        variable, value = allowed
        assert variable.startswith("METERLINE_")
        read = Settings.model_validate({variable.removeprefix("METERLINE_").lower(): value})
        assert len(read.webhook_networks_allowed) == len(value.split(","))
    assert [one.message for one in Draft7Validator(SCHEMA).iter_errors(whole)] == []
    with in_containers(tmp_path) as containers:
        assert json.loads(containers.more.read_text()) == merged()
        url = containers.reached(f"http://{containers.listens_at}:9/calls")
    assert url == f"http://{THIS_MACHINE}:9/calls"
    assert log.exists()


def test_a_command_alone_is_no_engine(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert not engine_composes()
    assert not log.exists()
