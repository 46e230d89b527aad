"""A process that refuses to start: code 1 and one line of what is wrong and what to do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.journey.processes import completed
from tests.services.local import LocalService

WITHIN_S = 120.0


def refusal(command: Sequence[str], folder: Path, settings: Mapping[str, str]) -> str:
    """Run a command that must refuse; the line that it says."""
    ended = completed(command, folder, settings, WITHIN_S)
    assert ended.returncode == 1, f"code {ended.returncode}: {ended.stderr[-3000:]}"
    assert "Traceback" not in ended.stderr, ended.stderr[-3000:]
    lines = [one for one in ended.stderr.splitlines() if one.startswith("meterline: ")]
    assert len(lines) == 1, ended.stderr[-3000:]
    return lines[0]


def refused(process: LocalService) -> str:
    """The same of a process of a set-up, which is not running."""
    return refusal(process.command, process.folder, process.environment)
