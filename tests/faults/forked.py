"""Processes of the product by fork: one process has imported everything, and each life of a role
begins as a copy of it. A start so costs a fraction of its CPU, and hundreds of kills fit into
minutes; what is started, its memory, files and sockets are its own, and `kill -9` is as ever.

    python -m tests.faults.forked

reads what to start from its standard input, a line of JSON each, and tells on its standard output
which process that became, and how processes ended. It ends with its standard input.
"""

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG: Final = 1  # <sys/prctl.h>
TOLD_WITHIN_S: Final = 60.0  # of a start or an end; the first start waits for the imports


@dataclass(slots=True)
class ForkedService:
    """A process like a `LocalService`, but forked; the names mean the same."""

    name: str
    url: str
    folder: Path
    command: Sequence[str]  # arguments of `meterline`
    environment: dict[str, str] = field(default_factory=dict)
    _pid: int | None = None

    @property
    def pid(self) -> int:
        """Process id of what was started last."""
        assert self._pid is not None, f"{self.name} is not running: start() it first"
        return self._pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed since; it may have ended by itself."""
        return self._pid is not None

    @property
    def log_path(self) -> Path:
        """Everything that its processes said."""
        return self.folder / "output.log"

    def ended(self) -> int | None:
        """The exit code of a process that ended by itself; None of one that runs, or of none."""
        return None if self._pid is None else _nursery().code(self._pid)

    def start(self) -> None:
        """Start it, if it does not run; returns at once."""
        if self._pid is None:
            self._pid = _nursery().born(
                {
                    "command": list(self.command),
                    "environment": self.environment,
                    "folder": str(self.folder),
                    "log": str(self.log_path),
                }
            )

    def kill(self) -> None:
        """SIGKILL, and wait for its end; nothing where it does not run."""
        if self._pid is not None:
            if self.ended() is None:
                os.kill(self._pid, signal.SIGKILL)
            _nursery().wait(self._pid)
            self._pid = None


class Nursery:
    """The process that forks, as its parent sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,  # Ctrl-C is for the run, which ends its processes
        )
        self._codes: dict[int, int | None] = {}
        self._born: list[int] = []
        self._told = threading.Condition()
        self._asking = threading.Lock()
        threading.Thread(target=self._listen, name="nursery", daemon=True).start()

    def born(self, request: dict[str, Any]) -> int:
        """Start a process; its id."""
        with self._asking:
            assert self._process.stdin is not None, "a pipe"
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            self._until(lambda: bool(self._born))
            return self._born.pop()

    def code(self, pid: int) -> int | None:
        """How a process ended; None while it runs."""
        with self._told:
            return self._codes[pid]

    def wait(self, pid: int) -> None:
        """Return when a process has ended."""
        self._until(lambda: self._codes[pid] is not None)

    def _until(self, holds: Callable[[], bool]) -> None:
        with self._told:
            assert self._told.wait_for(holds, TOLD_WITHIN_S), "the process that forks is silent"

    def _listen(self) -> None:
        assert self._process.stdout is not None, "a pipe"
        for line in self._process.stdout:
            told = json.loads(line)
            with self._told:
                if "code" in told:
                    self._codes[told["pid"]] = told["code"]
                else:
                    self._codes[told["pid"]] = None
                    self._born.append(told["pid"])
                self._told.notify_all()


@cache
def _nursery() -> Nursery:
    return Nursery()


# --- the process that forks ---


def _serve() -> None:
    """Import everything, then fork on demand until standard input ends."""
    import aggregator.drivers.faust_worker  # noqa: F401, PLC0415
    import meterline.runtime.process  # noqa: PLC0415
    import meterline.runtime.roles  # noqa: F401, PLC0415
    import tests.faults.process  # noqa: F401, PLC0415

    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    pending = b""
    while True:
        for key, _ in waiting.select():
            if key.fd == woken:
                os.read(woken, 4_096)
                continue
            chunk = os.read(0, 1 << 16)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                _fork(json.loads(line))
        _reap()


def _fork(request: dict[str, Any]) -> None:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(request, parent)
    _tell({"pid": pid})


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(words: dict[str, int]) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def _live(request: dict[str, Any], parent: int) -> NoReturn:
    """The life of a role; never returns."""
    code: object = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for here, there in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(here, there)
        os.closerange(3, 256)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        from tests.faults import process  # noqa: PLC0415

        process.main(request["command"])
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - a traceback is its last word, as of any process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _serve()
