"""The files of the checkout: what git tracks, and what it would if asked now."""

import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
BINARY_SUFFIXES: Final = frozenset({".png", ".ico", ".woff2", ".gz", ".xz", ".parquet"})


@cache
def files() -> tuple[str, ...]:
    """Return the paths, relative to the root, of tracked and of new files that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # A deleted file stays listed until the deletion is staged.
    return tuple(sorted({p for p in listed.split("\0") if p and (ROOT / p).is_file()}))


def python_files() -> tuple[str, ...]:
    """Return the paths of the Python files."""
    return tuple(path for path in files() if path.endswith(".py"))


def text_files() -> tuple[str, ...]:
    """Return the paths of everything that is text."""
    return tuple(path for path in files() if Path(path).suffix not in BINARY_SUFFIXES)


def read(path: str) -> str:
    """Return the text of one of the files."""
    return (ROOT / path).read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads(read("pyproject.toml"))
