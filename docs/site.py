"""The pages as a site: `python -m docs.site FOLDER` builds it with mkdocs-material.

Pages stay where they are, and are read as they are there. For the site, links that lead out of
`docs` are turned: to the page that stands for it, or to a copy of the file. Whatever leads nowhere
fails.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.site_diagrams import SCRIPT, script
from docs.site_reference import reference
from tests.services.service import ServiceError

ROOT: Final = Path(__file__).resolve().parents[1]
CONFIG: Final = Path(__file__).with_name("site.yaml")
OUTSIDE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "clients/go/README.md": "clients/go.md",
    "clients/typescript/README.md": "clients/typescript.md",
    "examples/receivers/README.md": "receivers/index.md",
    "examples/receivers/go/README.md": "receivers/go.md",
    "examples/receivers/node/README.md": "receivers/node.md",
    "examples/receivers/python/README.md": "receivers/python.md",
}
"""Pages that do not lie in `docs`, and where they are on the site."""

REFERENCE: Final = "operations-of-the-api.md"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
FILES: Final = "files"  # of the site: copies of files that pages lead to
_LINK: Final = re.compile(r"(?<=\]\()([^)\s:]+)(?=\))")
_FENCE: Final = re.compile(r"(^ *```.*?^ *``` *$)", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


def pages() -> dict[str, str]:
    """Every page: where it lies in the checkout, and where it is on the site."""
    own = sorted((ROOT / "docs").rglob("*.md"))
    inside = {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix()
        for path in own
    }
    return {**OUTSIDE, **inside}


def navigation(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table of contents: what site.yaml says, and all pages of two folders."""
    for name in ("problems", "decisions"):
        listed = [
            {_title(path): f"{name}/{path.name}"}
            for path in sorted((ROOT / "docs" / name).glob("*.md"))
        ]
        given = [*given, {name.capitalize(): listed}]
    return given


def assemble(folder: Path, more: Mapping[str, str] = NOTHING) -> None:
    """Put the pages of the site and the files that they lead to into a folder."""
    for source, place in pages().items():
        text = (ROOT / source).read_text("utf-8") + more.get(place, "")
        parts = _FENCE.split(text)
        turned = [
            part if _FENCE.fullmatch(part) else _turned(part, source, place, folder)
            for part in parts
        ]
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(turned), "utf-8")
    (folder / REFERENCE).write_text(reference(), "utf-8")
    (folder / SCRIPT).parent.mkdir(parents=True)
    (folder / SCRIPT).write_bytes(script())
    for image in (ROOT / "docs").rglob("*.png"):
        target = folder / image.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, target)


def make(folder: Path, more: Mapping[str, str] = NOTHING) -> None:
    """Build the site, with the texts of `more` added to its pages by name. Raises `SystemExit`, or
    `mkdocs.exceptions.Abort`, where a link leads nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="meterline-site-") as place:
        source = Path(place)
        assemble(source, more)
        config = load_config(str(CONFIG), docs_dir=place, site_dir=str(folder), strict=True)
        config.nav = navigation(config.nav or [])
        build(config)


def _turned(text: str, source: str, place: str, folder: Path) -> str:
    def link(found: re.Match[str]) -> str:
        path, hash_, anchor = found[1].partition("#")
        if not path:
            return found[0]
        return _target(path, source, place, folder) + hash_ + anchor

    return _LINK.sub(link, text)


def _target(path: str, source: str, place: str, folder: Path) -> str:
    """Where a link of a page leads on the site, as seen from there."""
    wanted = os.path.normpath(PurePosixPath(source).parent / path)
    known = pages()
    if wanted in known:
        return _seen(known[wanted], place)
    if wanted.startswith("docs/") and (ROOT / wanted).suffix == ".png":
        return _seen(wanted.removeprefix("docs/"), place)
    there = ROOT / wanted
    if there.is_dir():
        index = next(_first(there, wanted), None)
        if index is None:
            message = f"{source}: {path} is a folder without a page"
            raise SystemExit(message)
        return _seen(index, place)
    if not there.is_file():
        message = f"{source}: {path} leads nowhere"
        raise SystemExit(message)
    copied = f"{FILES}/{wanted}"
    (folder / copied).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(there, folder / copied)
    return _seen(copied, place)


def _first(there: Path, wanted: str) -> Iterator[str]:
    known = pages()
    for name in ("README.md", *(path.name for path in sorted(there.glob("*.md")))):
        if f"{wanted}/{name}" in known:
            yield known[f"{wanted}/{name}"]


def _seen(target: str, place: str) -> str:
    return os.path.relpath(target, PurePosixPath(place).parent).replace(os.sep, "/")


def _title(path: Path) -> str:
    found = _TITLE.search(path.read_text("utf-8"))
    return found[1].replace("`", "") if found else path.stem


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]).resolve())
    except ServiceError as error:
        sys.exit(f"site: {error}")
