"""Make the clients, and check the documents they are made of: `python -m clients.openapi COMMAND`.

- `generate`: documents and generated files, anew from the code
- `check`: they are up to date, in good style, and break nothing that was released
- `release`: the documents of now become the last released ones
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from clients.openapi import generation
from clients.openapi.baseline import DIGESTS, DOCUMENTS, digests
from clients.openapi.comparison import RELEASED, breaks
from clients.openapi.tools import HERE, ToolError, npm_packages, run

_QUIET: Final = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


def generate(folder: Path) -> list[str]:
    """Bring everything to its place."""
    generation.make(folder)
    generation.put(folder)
    return []


def check(folder: Path) -> list[str]:
    """What is wrong, in words; nothing of the repository is changed."""
    generation.make(folder)
    wrong = [
        f"{place} is not what the code makes: run `make clients`"
        for place in generation.stale(folder)
    ]
    if DIGESTS.read_text(encoding="utf-8") != digests():
        wrong.append(
            f"{RELEASED.name}/ is not what was released: put it back, or, at a release, run"
            f" `{_COMMAND} release` and say so in CHANGELOG.md"
        )
    for name in DOCUMENTS:
        wrong += _broken(name, folder)
    if not wrong:
        wrong += _style()
    return wrong


def release(_folder: Path) -> list[str]:
    """Say that the documents of now are out: from here on nothing of them may break."""
    RELEASED.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        shutil.copyfile(HERE / name, RELEASED / name)
    DIGESTS.write_text(digests(), encoding="utf-8")
    return []


def _broken(name: str, folder: Path) -> list[str]:
    released = RELEASED / name
    if not released.exists():
        return [f"{released.name}: no released one to compare with: run `{_COMMAND} release`"]
    words = breaks(
        json.loads(released.read_text(encoding="utf-8")),
        json.loads((folder / name).read_text(encoding="utf-8")),
        folder,
    )
    return [f"{name} breaks clients of the released one:\n{words}"] if words else []


def _style() -> list[str]:
    redocly = npm_packages(HERE) / "redocly"
    try:
        run([str(redocly), "lint", "--format", "stylish"], HERE, _QUIET)
    except ToolError as error:
        return [str(error)]
    return []


_COMMAND: Final = "python -m clients.openapi"
_COMMANDS: Final = {"generate": generate, "check": check, "release": release}


def main(arguments: list[str]) -> int:
    """0 if all is well."""
    if len(arguments) != 1 or arguments[0] not in _COMMANDS:
        sys.stderr.write(f"{_COMMAND} {'|'.join(_COMMANDS)}\n")
        return 2
    try:
        with tempfile.TemporaryDirectory() as folder:
            wrong = _COMMANDS[arguments[0]](Path(folder))
    except ToolError as error:
        wrong = [str(error)]
    for words in wrong:
        sys.stderr.write(f"clients: {words}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
