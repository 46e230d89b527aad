"""`python -m tests.nursery`: import everything once, then fork on demand.

It reads what to start from its standard input, a line of JSON each. On its standard output it tells
which process that became, and how processes ended. It ends with its standard input, and all that it
forked with it.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from typing import Any, Final, NoReturn

from meterline.runtime.cli import COMMANDS, ROLES
from tests.nursery import COMMAND

# What the product imports only where it uses it is imported here too: tests use all of it.
LOADED: Final = (
    *(f"meterline.runtime.commands.{module}" for module, *_ in COMMANDS.values()),
    *(f"meterline.runtime.roles.{module}" for module, _ in ROLES.values()),
    "aggregator.drivers.faust_worker",
    "meterline.runtime.archive.making",
    "meterline.runtime.archive.restoring",
    "meterline.runtime.process",
    "meterline.runtime.workers.supervisor",
    "svix.webhooks",
    "tests.faults.process",
    "tests.journey.moved_clock",
)
PR_SET_PDEATHSIG: Final = 1  # <sys/prctl.h>
FILES_MAX: Final = 256


def main() -> None:
    """Fork until standard input ends."""
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # a child does not walk over what it shares
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    births: dict[int, int] = {}
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
                _fork(json.loads(line), births)
        _reap(births)


def _fork(request: dict[str, Any], births: dict[int, int]) -> None:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(request, parent)
    births[pid] = request["birth"]
    _tell({"birth": request["birth"], "pid": pid})


def _reap(births: dict[int, int]) -> None:
    while births:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        _tell({"birth": births.pop(pid), "code": os.waitstatus_to_exitcode(status)})


def _tell(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _live(request: dict[str, Any], parent: int) -> NoReturn:
    """The life of a process; never returns."""
    code: object = 1
    try:
        _begin(request, parent)
        _be(request["module"], request["arguments"])
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - a traceback is its last word, as of any process
        traceback.print_exc()
    finally:
        _end(code)


def _begin(request: dict[str, Any], parent: int) -> None:
    """What a new process has for itself: signals, session, files, folder, environment."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [os.open(request[name], writes, 0o644) for name in ("out", "err")]
    for number, one in enumerate((nothing, *files)):
        os.dup2(one, number)
    os.closerange(3, FILES_MAX)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = [request["program"], *request["arguments"]]


def _be(module: str, arguments: list[str]) -> None:
    main = importlib.import_module(module).main
    if module == COMMAND:
        main(arguments, prog_name="meterline")
    else:
        main(arguments)


def _end(code: object) -> NoReturn:
    """As the interpreter ends, but for taking the modules apart: that takes as long as a start."""
    try:
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
