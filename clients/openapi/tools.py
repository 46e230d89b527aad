"""The tools that make and check clients, each fetched by its language's own client.

Versions are pinned by the lock files beside them; what is built lies in `.cache/` and in
`node_modules/`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
CACHE: Final = ROOT / ".cache" / "clients"
TYPESCRIPT: Final = HERE.parent / "typescript"
GO: Final = HERE.parent / "go"
WITHIN_S: Final = 600  # fetching on a slow line included


class ToolError(Exception):
    """A tool is missing or failed; the words are its own."""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command wrote to its standard output. Raises `ToolError`."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        words = f"{done.stdout}{done.stderr}".strip()
        raise ToolError(f"{' '.join(command)} (in {folder}) ended with {done.returncode}:\n{words}")
    return done.stdout


@cache
def npm_packages(folder: Path) -> Path:
    """The folder of commands of what a package's lock file names, installed if it is not yet."""
    npm = _found("npm", "Node.js 20.19 or newer (Debian: apt install nodejs npm)")
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    modules = folder / "node_modules"
    stamp = modules / ".installed"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "npm.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # tests run side by side, each in a process of its own
        if not stamp.exists() or stamp.read_text() != lock:
            sys.stderr.write(f"clients: npm ci in {folder.relative_to(ROOT)}\n")
            # scripts of packages are not run: none of these needs one
            run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
            stamp.write_text(lock)
    return modules / ".bin"


@cache
def go_tool(name: str) -> Path:
    """The program of the Go module `clients/openapi/<name>`, built if anything changed."""
    go = go_command()
    program = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    if not program.exists():
        sys.stderr.write(f"clients: go build {name}, half a minute the first time\n")
    run([go, "build", "-buildvcs=false", "-o", str(program), "tool"], HERE / name)
    return program


def go_command() -> str:
    """Where `go` is."""
    return _found("go", "Go 1.26 or newer")


def _found(program: str, wanted: str) -> str:
    place = shutil.which(program)
    if place is None:
        raise ToolError(f"There is no `{program}` on PATH: install {wanted}.")
    return place
