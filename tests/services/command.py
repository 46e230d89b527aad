"""Run one command to its end, or say what went wrong."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services.service import ServiceError


def ended(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], within_s: float
) -> subprocess.CompletedProcess[str]:
    """A command at its end, with these variables beside ours. Raises `TimeoutExpired`."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=within_s,
    )


def run_to_end(
    purpose: str,
    command: Sequence[str],
    folder: Path,
    within_s: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run `command` in `folder`; what it printed to stdout.

    Raises:
        ServiceError: it failed or took too long; the text has the purpose and all that was printed.

    """
    try:
        done = ended(command, folder, environment or {}, within_s)
    except subprocess.TimeoutExpired as error:
        message = f"{purpose}: `{' '.join(command)}` did not end within {within_s:g} s"
        raise ServiceError(message) from error
    if done.returncode != 0:
        words = f"{done.stdout}\n{done.stderr}".strip()
        message = f"{purpose}: `{' '.join(command)}` ended with code {done.returncode}:\n{words}"
        raise ServiceError(message)
    return done.stdout
