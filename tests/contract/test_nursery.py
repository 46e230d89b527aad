"""A forked process is as one that was started: what it prints, how it ends, what it is given."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, completed, forked, role_process
from tests.services.local import Begin, free_port, nobody_at, spawned

WITHIN_S = 120.0
Run = Callable[[Sequence[str], Path, Mapping[str, str], float], "subprocess.CompletedProcess[str]"]


def started(
    command: Sequence[str], folder: Path, settings: Mapping[str, str], within_s: float
) -> "subprocess.CompletedProcess[str]":
    """The command as a process of its own."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "settings", "code"),
    [
        (["--help"], {}, 0),
        (["keys", "list", "--no-such"], {}, 2),
        (["up"], {"METERLINE_PORT": "none"}, 2),
        (["send", "absent.ndjson", "--to", "http://127.0.0.1:1"], {}, None),
    ],
)
def test_a_forked_command_says_what_a_started_one_does(
    arguments: list[str], settings: dict[str, str], code: int | None, tmp_path: Path
) -> None:
    ways: tuple[Run, ...] = (started, completed)
    one, other = (way([str(PROGRAM), *arguments], tmp_path, settings, WITHIN_S) for way in ways)
    assert (one.stdout, one.stderr) == (other.stdout, other.stderr)
    assert one.stdout + one.stderr
    assert one.returncode == other.returncode
    assert code is None or one.returncode == code


@pytest.mark.parametrize(
    ("begin", "number"),
    [
        (spawned, signal.SIGTERM),
        (forked, signal.SIGTERM),
        (forked, signal.SIGINT),
        (forked, signal.SIGKILL),
    ],
)
def test_a_signal_ends_it(begin: Begin, number: signal.Signals, tmp_path: Path) -> None:
    """A start that waits for Kafka is ended; the next one has the same folder and log."""
    with nobody_at() as away:
        settings = {
            "METERLINE_DATA_DIR": str(tmp_path / "data"),
            "METERLINE_LOG_URL": f"kafka://127.0.0.1:{away}",
        }
        one = role_process("in", ["ingest"], tmp_path / "in", free_port(), settings, begin=begin)
        one.problem = lambda: None  # its start is not waited for
        for _ in range(2):
            before = waits(one.log_path)
            one.start()
            until("it waits", WITHIN_S, partial(waits_more, one.log_path, before))
            assert os.getsid(one.pid) == one.pid
            assert one.ended() is None
            os.kill(one.pid, number)
            code = until("it ends", WITHIN_S, lambda: ended(one.ended()))
            assert code == (str(-number) if number is signal.SIGKILL else "0")
            one.kill()


def waits(log: Path) -> int:
    """How many starts have said that they wait."""
    return log.read_text().count("event=waiting") if log.exists() else 0


def waits_more(log: Path, before: int) -> bool:
    """Whether one more has."""
    return waits(log) > before


def ended(code: int | None) -> str | None:
    """The exit code in words, which are true also for 0."""
    return None if code is None else str(code)
