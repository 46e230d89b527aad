"""The product's own processes: its command `meterline`.

They are forked, which costs a fraction of the CPU of a start; a journey with `spawned` ones starts
them as a user or a container does.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.nursery.forked import fork, is_forkable
from tests.services.command import ended
from tests.services.local import Begin, LocalService, Process, spawned
from tests.services.service import ServiceError

PROGRAM = Path(sys.executable).with_name("meterline")
COMMAND_WITHIN_S = 600.0  # most of it for a machine that does something else too
START_WITHIN_S = 180.0
PROBE_S = 15.0


def forked(service: LocalService) -> Process:
    """Its command, forked, unless its program or its variables need a start of its own."""
    if not is_forkable(service.command, service.environment):
        return spawned(service)
    environment = {**os.environ, **service.environment}
    return fork(service.command, service.folder, environment, service.log_path)


def role_process(
    name: str,
    command: Sequence[str],
    folder: Path,
    port: int,
    settings: Mapping[str, str],
    program: Sequence[str] = (str(PROGRAM),),
    begin: Begin = forked,
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
        begin=begin,
    )


def completed(
    command: Sequence[str],
    folder: Path,
    settings: Mapping[str, str],
    within_s: float = COMMAND_WITHIN_S,
) -> subprocess.CompletedProcess[str]:
    """A command at its end, forked as above. Raises `subprocess.TimeoutExpired`."""
    if not is_forkable(command, settings):
        return ended(command, folder, settings, within_s)
    environment = {**os.environ, **settings}
    with tempfile.TemporaryDirectory(prefix="command-") as place:
        out, err = (Path(place, name) for name in ("out", "err"))
        process = fork(command, folder, environment, out, err)
        try:
            code = process.wait(within_s)
        finally:
            process.kill()
        words = [one.read_text(errors="replace") for one in (out, err)]
    return subprocess.CompletedProcess(command, code, *words)


def run_command(arguments: Sequence[str], folder: Path, settings: Mapping[str, str]) -> str:
    """Run `meterline ARGUMENTS` to its end; what it printed to stdout. Raises `ServiceError` with
    its words if it fails.
    """
    done = completed([str(PROGRAM), *arguments], folder, settings)
    if done.returncode != 0:
        words = f"{done.stdout}\n{done.stderr}".strip()
        message = f"`meterline {' '.join(arguments)}` ended with code {done.returncode}:\n{words}"
        raise ServiceError(message)
    return done.stdout


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
