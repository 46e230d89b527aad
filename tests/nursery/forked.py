"""A process that was forked, as its test sees it.

A start costs a fraction of its CPU. What is started is a process as any other: its memory, files,
sockets, signals and exit code are its own, and `kill -9` is as ever. What it shares with others of
its test run is the order of hashes. Whoever tests the start itself starts a process of its own.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.nursery import COMMAND

ROOT: Final = Path(__file__).resolve().parents[2]
AT_START_ONLY: Final = frozenset({"LD_PRELOAD"})  # variables that a fork is too late for
TOLD_WITHIN_S: Final = 180.0  # of a start; the first one waits for the imports


@dataclass(frozen=True, slots=True)
class Forked:
    """Like a `subprocess.Popen`; the names mean the same."""

    birth: int
    pid: int

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return _nursery().code(self.birth)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises `subprocess.TimeoutExpired`."""
        code = _nursery().ended(self.birth, timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def is_forkable(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a fork can be this: another program, such variables, or the code of another build
    need a start of its own.
    """
    here = str(ROOT)
    is_this_build = environment.get("PYTHONPATH", here) == here
    return _is_ours(command) and AT_START_ONLY.isdisjoint(environment) and is_this_build


def _is_ours(command: Sequence[str]) -> bool:
    return _is_meterline(command[0]) or tuple(command[:2]) == (sys.executable, "-m")


def _is_meterline(program: str) -> bool:
    return Path(program).name == "meterline"


def fork(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    err: Path | None = None,
) -> Forked:
    """Begin `meterline ARGUMENT ...` or `python -m MODULE ARGUMENT ...`, in a folder, with all of
    an environment. What it prints is added to the files; without `err` all of it goes to `out`.
    """
    assert _is_ours(command), f"not forked: {command}"
    program, *arguments = command
    module = COMMAND
    if not _is_meterline(program):
        _, module, *arguments = arguments
    request = {
        "program": program,
        "module": module,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder.resolve()),
        "out": str(out.resolve()),
        "err": str((err or out).resolve()),
    }
    return Forked(*_nursery().born(request))


class Nursery:
    """The process that forks, as its parent sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,  # Ctrl-C is for the run, which ends its processes
        )
        self._births = count(1)
        self._pids: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._gone = False
        self._told = threading.Condition()
        self._asking = threading.Lock()
        threading.Thread(target=self._listen, name="nursery", daemon=True).start()

    def born(self, request: Mapping[str, Any]) -> tuple[int, int]:
        """Start a process; the number of its birth, and its process id."""
        birth = next(self._births)
        line = json.dumps({**request, "birth": birth}).encode() + b"\n"
        with self._asking:
            assert self._process.stdin is not None, "a pipe"
            self._process.stdin.write(line)
            self._process.stdin.flush()
        self._until(lambda: birth in self._pids, TOLD_WITHIN_S)
        assert birth in self._pids, "the process that forks has ended, or is silent"
        return birth, self._pids[birth]

    def code(self, birth: int) -> int | None:
        """How a process ended; None while it runs."""
        with self._told:
            return self._codes.get(birth, -signal.SIGKILL if self._gone else None)

    def ended(self, birth: int, within_s: float | None) -> int | None:
        """The same, once it has ended, or after so long."""
        self._until(lambda: birth in self._codes, within_s)
        return self.code(birth)

    def _until(self, holds: Callable[[], bool], within_s: float | None) -> None:
        with self._told:
            self._told.wait_for(lambda: holds() or self._gone, within_s)

    def _listen(self) -> None:
        assert self._process.stdout is not None, "a pipe"
        for line in self._process.stdout:
            told = json.loads(line)
            with self._told:
                known = self._pids if "pid" in told else self._codes
                known[told["birth"]] = told.get("pid", told.get("code"))
                self._told.notify_all()
        with self._told:
            self._gone = True
            self._told.notify_all()


@cache
def _nursery() -> Nursery:
    return Nursery()
