"""Lives on one disk, each forked from a process that has loaded everything: a fraction of the time.

    python -m tests.disk.nursery OUT

Each line on stdin is the arguments of a life (see `tests.disk.life`) as JSON; its stdout and stderr
go to OUT/stdout and OUT/stderr; the answer is a line with its exit code, less than 0 for a signal.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from asyncio import run
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.disk.disk import Disk
from tests.disk.life import live
from tests.disk.lived import Lived

WITHIN_S = 120.0


class Nursery:
    """Lives on `disk`, with files of their own in `beside`."""

    def __init__(self, disk: Disk, beside: Path) -> None:
        self._out = beside
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.disk.nursery", str(beside)],
            env={**os.environ, **disk.environment(keeping=True)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, store: str, disk: Disk, name: str, expected: frozenset[str]) -> Lived:
        """Run a life to its end."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([store, str(disk.folder), name, json.dumps(sorted(expected))]))
        asked.write("\n")
        asked.flush()
        code = int(answered.readline())
        texts = [(self._out / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        return Lived.told(code, *texts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process as process:  # which closes its pipes
            process.kill()


def main(out: Path) -> None:
    """Fork a life for each line, until there are no more."""
    gc.freeze()  # the children share what was loaded
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(out / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            _live(json.loads(line))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def _live(given: list[str]) -> None:
    """The life. One that hangs ends by SIGALRM; the end leaves out to take the modules apart."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
    code = run(live(*given))
    atexit._run_exitfuncs()  # noqa: SLF001 - what ends a process else, at a tenth of the cost
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
