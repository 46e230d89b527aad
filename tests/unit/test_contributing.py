"""The examples of CONTRIBUTING.md are changes of this tree."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATCHES = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def applies(patch: str) -> subprocess.CompletedProcess[str]:
    """Whether a patch fits the files; it changes none."""
    return subprocess.run(
        ["git", "apply", "--check", "-C1", "-"],  # noqa: S607
        cwd=ROOT,
        input=patch,
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_three() -> None:
    assert len(PATCHES) == 3


@pytest.mark.parametrize("number", range(3))
def test_an_example_fits_the_tree(number: int) -> None:
    done = applies(PATCHES[number])
    assert done.returncode == 0, f"CONTRIBUTING.md, example {number + 1}: {done.stderr}"


def test_control_a_patch_of_other_lines_does_not_fit() -> None:
    assert applies(PATCHES[0].replace("MIN", "LEAST")).returncode != 0
