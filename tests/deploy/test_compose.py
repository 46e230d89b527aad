"""The compose file is one, by the published schema; its proxy is one that Caddy takes; one command
starts it all.
"""

import copy
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

pytestmark = pytest.mark.standard

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SCHEMA = json.loads((Path(__file__).with_name("schemas") / "compose.json").read_text())
WITHIN_S = 60.0


def test_it_is_a_compose_file() -> None:
    assert [one.message for one in Draft7Validator(SCHEMA).iter_errors(COMPOSE)] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("comand", ["ingest"]), ("ports", "8888"), ("read_only", [1]), ("healthcheck", {"tests": []})],
)
def test_a_service_that_is_wrong_is_found(key: str, value: object) -> None:
    wrong = copy.deepcopy(COMPOSE)
    wrong["services"]["ingest-1"][key] = value
    assert list(Draft7Validator(SCHEMA).iter_errors(wrong))


def test_caddy_takes_its_configuration() -> None:
    caddy = Path(sys.executable).with_name("caddy")
    done = subprocess.run(
        [caddy, "validate", "--config", DEPLOY / "compose/Caddyfile", "--adapter", "caddyfile"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    assert "Valid configuration" in done.stdout + done.stderr


def test_one_command_makes_secrets_once_and_starts_it(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    secrets = tmp_path / "secrets"
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    said = []
    for _ in range(2):
        done = subprocess.run(
            ["make", "--no-print-directory", "compose", f"SECRETS={secrets}"],  # noqa: S607
            cwd=ROOT,
            env={**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=WITHIN_S,
        )
        said.append((done.stdout.splitlines()[-1], secrets.read_text()))
    assert said[0] == said[1], "secrets that exist are kept"
    assert said[0][0] == (
        f"compose --env-file {secrets} -f deploy/compose.yaml up --build --detach --wait"
    )
    made = dict(line.split("=") for line in said[0][1].splitlines())
    needed = {
        part.split(":?")[0].strip("}")
        for part in (DEPLOY / "compose.yaml").read_text().split("${")[1:]
        for part in [part.split("}")[0]]
    }
    assert made.keys() == needed
    assert all(len(value) == 64 for value in made.values())
    assert len(set(made.values())) == len(made)
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
