"""The product's own processes: its command `meterline`, run as a user or a container runs it."""

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.services.command import run_to_end
from tests.services.local import LocalService

PROGRAM = Path(sys.executable).with_name("meterline")
COMMAND_WITHIN_S = 600.0  # most of it for a machine that does something else too
START_WITHIN_S = 180.0
PROBE_S = 15.0


def role_process(
    name: str,
    command: Sequence[str],
    folder: Path,
    port: int,
    settings: Mapping[str, str],
    program: Sequence[str] = (str(PROGRAM),),
) -> LocalService:
    """A role that is ready to start, in a folder of its own, serving on a port.

    `kill` and `start` again keep its folder; `stop` drops it. `program` stands for `meterline`.
    """
    folder.mkdir(parents=True)
    url = f"http://127.0.0.1:{port}"
    return LocalService(
        name=name,
        url=url,
        folder=folder,
        command=[*program, *command],
        problem=partial(_not_ready, url),
        start_within_s=START_WITHIN_S,
        environment={**settings, "METERLINE_PORT": str(port)},
    )


def run_command(arguments: Sequence[str], folder: Path, settings: Mapping[str, str]) -> str:
    """Run `meterline ARGUMENTS` to its end; what it printed to stdout. Raises `ServiceError` with
    its words if it fails.
    """
    purpose = f"meterline {arguments[0]}"
    return run_to_end(purpose, [str(PROGRAM), *arguments], folder, COMMAND_WITHIN_S, settings)


@contextlib.contextmanager
def sending(arguments: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`meterline send -` with a pipe to its input; ended with the block if it did not end itself.

    What it prints goes to `send.log` in the folder.
    """
    with (folder / "send.log").open("ab") as log:
        process = subprocess.Popen(
            [str(PROGRAM), "send", "-", *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


def _not_ready(url: str) -> str | None:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=PROBE_S):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"/readyz: {error.code} {error.read()[:500]!r}"
    except OSError as error:
        return f"/readyz: {error}"


def why_silent(url: str) -> str | None:
    """Why a server does not answer yet; a refusal is an answer too."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=PROBE_S):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except OSError as error:
        return f"/readyz: {error}"
