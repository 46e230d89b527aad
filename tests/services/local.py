"""A server as a local process: own folder, own port, ended by its process id."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import psutil

from tests.services.service import ServiceError

POLL_S = 0.05
STOP_WITHIN_S = 60.0
LOG_TAIL_BYTES = 4000
TETHER = Path(__file__).with_name("tether.py")

# A tethered process dies with the thread that spawned it (see tether.py). This one lives as long
# as the interpreter; pytest's fixtures and `asyncio.to_thread` may use threads that do not.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


class Process(Protocol):
    """What is asked of a process, as `subprocess.Popen` answers it."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises `subprocess.TimeoutExpired`."""
        ...

    def send_signal(self, sig: int) -> None:
        """Nothing where it has ended."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...


PORT_FIRST: Final = 10_000
PORT_LAST_DEFAULT: Final = 32_767
PORTS_MIN: Final = 1_000
EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """Return a loopback TCP port nobody listens on now. It is none of those that the system gives
    to connections and to whoever asks for any: it stays free until its server takes it, and while
    that is killed.
    """
    last = _last_port()
    if last - PORT_FIRST < PORTS_MIN:
        with nobody_at() as port:
            return port
    while True:
        port = PORT_FIRST + secrets.randbelow(last - PORT_FIRST)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def _last_port() -> int:
    """Beyond it are the ports that the system gives."""
    try:
        return int(EPHEMERAL.read_text().split()[0]) - 1
    except OSError:
        return PORT_LAST_DEFAULT


@contextlib.contextmanager
def nobody_at() -> Iterator[int]:
    """A loopback TCP port at which nobody listens, and nobody can until the block ends."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port


@contextlib.contextmanager
def data_folder(name: str) -> Iterator[Path]:
    """Make a temporary folder for one server; it stays, unless the body fails."""
    folder = Path(tempfile.mkdtemp(prefix=f"meterline-{name}-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def spawned(service: "LocalService") -> Process:
    """Its command as a process of its own, which ends with this one."""
    return _SPAWNER.submit(_spawn, service).result()


Begin = Callable[["LocalService"], Process]
"""How the process of a service is begun."""

_begun: set["LocalService"] = set()


def fallen() -> list["LocalService"]:
    """Services that nobody ended, and that run no more."""
    return [service for service in set(_begun) if service.ended() is not None]


@dataclass(slots=True, eq=False)
class LocalService:
    """A server process of ours; `problem()` returns why it does not serve yet, or None."""

    name: str
    url: str
    folder: Path
    command: Sequence[str]
    problem: Callable[[], str | None]
    stop_signal: signal.Signals = signal.SIGTERM
    start_within_s: float = 180.0
    user: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    begin: Begin = spawned
    _process: Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            message = f"{self.name} is not running: start() it first"
            raise ServiceError(message)
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed since; it may have ended by itself."""
        return self._process is not None

    def ended(self) -> int | None:
        """The exit code of a process that ended by itself; None of one that runs, or of none."""
        return None if self._process is None else self._process.poll()

    @property
    def log_path(self) -> Path:
        """Everything that the server printed, over all its starts."""
        return self.folder / "output.log"

    def start(self) -> None:
        """See `Service.start`."""
        if self._process is not None:
            return
        self._process = self.begin(self)
        _begun.add(self)
        deadline = time.monotonic() + self.start_within_s
        while (reason := self.problem()) is not None:
            code = self._process.poll()
            if code is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
                continue
            ended = f"ended with code {code}" if code is not None else f"does not serve: {reason}"
            tail = self.last_words()
            self.kill()
            message = f"{self.name} {ended}; its last words in {self.log_path}:\n{tail}"
            raise ServiceError(message)

    def freeze(self) -> None:
        """It stands still on return. The signal alone is not enough: on a busy machine its threads
        go on for a while, until each of them notices.
        """
        os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + self.start_within_s
        while not all(map(_stands, Path(f"/proc/{self.pid}/task").glob("*/stat"))):
            if time.monotonic() > deadline:
                message = f"{self.name} goes on after SIGSTOP"
                raise ServiceError(message)
            time.sleep(POLL_S)

    def thaw(self) -> None:
        """It goes on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """See `Service.kill`: the process and all its children, as when a container is killed."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            for child in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(family, timeout=STOP_WITHIN_S)
        self._process.wait()
        self._process = None
        _begun.discard(self)

    def stop(self) -> None:
        """See `Service.stop`."""
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_WITHIN_S)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def last_words(self) -> str:
        """The end of what it printed."""
        raw = self.log_path.read_bytes()[-LOG_TAIL_BYTES:]
        return raw.decode(errors="replace").strip() or "(it printed nothing)"


def _spawn(service: LocalService) -> Process:
    with service.log_path.open("ab") as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", str(TETHER), str(os.getpid()), service.user or "-"),
                *service.command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=service.folder,
            env={**os.environ, **service.environment},
            start_new_session=True,  # Ctrl-C is for the tests: they stop their servers
        )


def _stands(stat: Path) -> bool:
    """Whether a thread is stopped, or gone: its state follows its name, which may have anything."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "TtXZ"
    except (FileNotFoundError, ProcessLookupError):
        return True
