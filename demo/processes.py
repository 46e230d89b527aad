"""Processes of the demo: the command `meterline`, ended with the block that started it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from demo.server import Failed

PROGRAM: Final = Path(sys.executable).with_name("meterline")
END_WITHIN_S: Final = 20.0
LAST_WORDS_CHARS: Final = 2_000


def check_program() -> None:
    """Raise `Failed` where the product is not installed beside this Python."""
    if not PROGRAM.is_file():
        raise Failed(f"{PROGRAM} is not there: run `make demo`, which installs it")


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    arguments: Sequence[str],
    out: IO[bytes] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `meterline ARGUMENTS` as long as the block; `out` takes what it prints, else we do."""
    process = subprocess.Popen(
        [str(PROGRAM), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        env={**os.environ, **(settings or {})},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(arguments: Sequence[str]) -> None:
    """Run `meterline ARGUMENTS` to its end, in sight. Raises `Failed`."""
    with running(arguments) as process:
        code = process.wait()
    if code:
        raise Failed(f"`meterline {' '.join(arguments)}` ended with code {code}")


def last_words(log: Path) -> str:
    """The end of what a process printed."""
    return log.read_text(errors="replace")[-LAST_WORDS_CHARS:].strip() or "(nothing)"
