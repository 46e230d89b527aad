"""The whole way as each client's example goes it, and what it must have seen."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WITHIN_S = 240.0
SUBJECTS = ("ada", "bob", "cyd")
EVENTS = 600


def told(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a program printed; it must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_whole(printed: str) -> None:
    """The events were counted, reported, received, verified and replayed."""
    seen: dict[str, Any] = json.loads(printed)
    totals = {
        subject: sum(range(place, EVENTS, len(SUBJECTS))) for place, subject in enumerate(SUBJECTS)
    }
    assert {name: int(value) for name, value in seen["usage"].items()} == totals
    assert {name: int(value) for name, value in seen["booked"].items()} == totals
    assert len(seen["delivered"]) == len(SUBJECTS)
    assert seen["received"] == seen["delivered"]
    assert seen["refused"] == len(SUBJECTS) + 1, "each delivery with a changed byte"
    assert seen["replayed"] == {"sameId": True, "sameBytes": True}


def assert_first_usage(printed: str) -> None:
    """The example of the README told the usage of both customers."""
    assert sorted(printed.split("\n")) == ["", "ada 350.5", "bob 40"]


def assert_shown(folder: Path, example: str) -> None:
    """The README shows an example as it is."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert (folder / example).read_text(encoding="utf-8") in readme, f"README.md shows {example}"
