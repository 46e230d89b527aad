"""Fixtures of the clients' tests: both clients compiled, a server that wants keys, and on it each
client's whole way, under way while other tests run.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clients.openapi.tools import GO, TYPESCRIPT, go_command, npm_packages, run
from tests.clients.way import told
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import role_process, run_command
from tests.services.local import LocalService, free_port

KEY_WITHIN_S = 60.0
OK = 200

Access = Callable[[str], dict[str, str]]


@pytest.fixture(scope="package")
def threads() -> Iterator[ThreadPoolExecutor]:
    """For what takes its time and needs no attention."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(scope="package")
def keyed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """A whole product in mode keys, not started yet."""
    folder = tmp_path_factory.mktemp("clients")
    settings = {
        "METERLINE_DATA_DIR": str(folder / "data"),
        "METERLINE_ACCESS_MODE": "keys",
        "METERLINE_WEBHOOK_NETWORKS_ALLOWED": "127.0.0.0/8",
    }
    process = role_process("up", ["up"], folder / "up", free_port(), settings)
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="package")
def started(
    keyed_server: LocalService,
    threads: ThreadPoolExecutor,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    """Everything made ready at the same time: folders of the compiled TypeScript and of the Go
    programs; the server runs.
    """
    programs = tmp_path_factory.mktemp("go")
    build = [go_command(), "build", "-buildvcs=false", "-o", f"{programs}/", "./example/..."]
    tasks: list[Future[Any]] = [
        threads.submit(keyed_server.start),
        threads.submit(lambda: run([str(npm_packages(TYPESCRIPT) / "tsc")], TYPESCRIPT)),
        threads.submit(run, build, GO),
    ]
    for task in tasks:
        task.result()
    return TYPESCRIPT / "dist", programs


@pytest.fixture(scope="package")
def typescript(started: tuple[Path, Path]) -> Path:
    """The folder of the compiled package, with its tests and examples."""
    return started[0]


@pytest.fixture(scope="package")
def go_programs(started: tuple[Path, Path]) -> Path:
    """The folder of the compiled examples."""
    return started[1]


@pytest.fixture(scope="package")
def access(keyed_server: LocalService, started: tuple[Path, Path]) -> Access:
    """What a program of a namespace finds in its environment: where the server is, and a key."""
    assert started
    data = keyed_server.environment["METERLINE_DATA_DIR"]

    def of(namespace: str) -> dict[str, str]:
        arguments = ["keys", "--data", data, "create", "--name", "tests", "--namespace", namespace]
        key = run_command(arguments, Path(data).parent, {}).strip()
        until("a new key is known", KEY_WITHIN_S, lambda: _known(keyed_server.url, key))
        return {**os.environ, "METERLINE_URL": keyed_server.url, "METERLINE_API_KEY": key}

    return of


@pytest.fixture(scope="package")
def whole_ways(
    threads: ThreadPoolExecutor, typescript: Path, go_programs: Path, access: Access
) -> Mapping[str, Future[str]]:
    """What each client's whole way printed; each mostly waits until the figures are complete."""
    commands = {
        "typescript": (["node", "example/whole_way.js"], typescript),
        "go": ([str(go_programs / "whole_way")], go_programs),
    }

    def go(name: str) -> str:
        command, folder = commands[name]
        return told(command, folder, access(name))

    return {name: threads.submit(go, name) for name in commands}


def _known(url: str, key: str) -> bool:
    headers = {"Authorization": f"Bearer {key}"}
    return Server(url).ask("GET", "/api/v3/metering/meters", headers=headers).status == OK
