import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOOLS = ("go", "node", "npm", "mvn", "java", "cc")


def needs(folder: Path, tools: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """`make needs` where the path has these tools only."""
    make = shutil.which("make")
    assert make is not None
    for tool in tools:
        (folder / tool).write_text("#!/bin/sh\n")
        (folder / tool).chmod(0o755)
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # of a `make test` that runs this
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    environment = {**kept, "PATH": str(folder)}
    return subprocess.run(
        [make, "--no-print-directory", "-C", str(ROOT), "needs"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_where_all_is_there_nothing_is_said(tmp_path: Path) -> None:
    done = needs(tmp_path, TOOLS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", TOOLS)
def test_what_is_missing_is_named_in_one_line(tmp_path: Path, missing: str) -> None:
    done = needs(tmp_path, tuple(tool for tool in TOOLS if tool != missing))
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert len(said) == 1
    assert f"({missing}) on the path: install it" in said[0]


def test_a_commit_is_checked_by_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert found is not None
    commands = [line.strip().replace("$(BIN)/", ".venv/bin/") for line in found[1].splitlines()]
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local", "nothing is fetched for a hook"
    assert [hook["entry"] for hook in repository["hooks"]] == commands
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert (hook["always_run"], hook["pass_filenames"]) == (True, False)
        assert "stages" not in hook
        assert "exclude" not in hook


def test_the_readme_names_each() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("Go 1.24", "Node.js 20 with npm", "Maven with a JDK 17", "C compiler"):
        assert name in readme
