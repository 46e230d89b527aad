"""The example receivers as programs: installed, started, and what they booked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clients.openapi.tools import ROOT, go_command, npm_packages, run
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.services.local import free_port

FOLDER: Final = ROOT / "examples" / "receivers"
LANGUAGES: Final = ("python", "node", "go")
LIBRARIES: Final = ("svix", "standardwebhooks")
START_WITHIN_S: Final = 120.0
METHOD_NOT_ALLOWED: Final = 405

Commands = Mapping[str, tuple[list[str], Path]]
"""By language: the command that starts its receiver, and the folder that it is started in."""


def installed(programs: Path) -> Commands:
    """All receivers with their libraries, each installed by its language's own client."""
    npm_packages(FOLDER / "node")
    program = programs / "receiver"
    run([go_command(), "build", "-buildvcs=false", "-o", str(program), "."], FOLDER / "go")
    return {
        # this environment's libraries are those that it pins: a test of its own
        "python": ([sys.executable, "receiver.py"], FOLDER / "python"),
        "node": (["node", "receiver.mjs"], FOLDER / "node"),
        "go": ([str(program)], FOLDER / "go"),
    }


@dataclass(frozen=True, slots=True)
class Running:
    """A receiver at work."""

    server: Server
    book: Path
    process_id: int

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of its book."""
        return [json.loads(line) for line in self.book.read_text("utf-8").splitlines()]

    def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status that it answers to a POST."""
        return self.server.ask("POST", "/", body, headers).status


@contextmanager
def receiver(
    command: tuple[list[str], Path], library: str, secret: str, book: Path, port: int | None = None
) -> Iterator[Running]:
    """A receiver that believes what a secret signed, until the block ends."""
    port = port or free_port()
    environment = {
        **os.environ,
        "SIGNING_SECRET": secret,
        "PORT": str(port),
        "BOOK": str(book),
        "LIBRARY": library,
    }
    started, folder = command
    with book.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(started, cwd=folder, env=environment, stdout=log, stderr=log)
    running = Running(Server(f"http://127.0.0.1:{port}"), book, process.pid)
    try:
        until("the receiver listens", START_WITHIN_S, lambda: _listens(running))
        yield running
    finally:
        process.kill()
        process.wait()


def _listens(running: Running) -> bool:
    return running.server.ask("GET", "/").status == METHOD_NOT_ALLOWED
