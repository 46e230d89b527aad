"""A version is the same wherever it stands. What was released has its notes and its recording."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.openapi.baseline import DOCUMENTS
from tests.tidy.tree import files, pyproject, read
from tests.upgrade.recording import manifest, names
from tests.upgrade.released import MIGRATIONS, released

HEADING = re.compile(r"^## (\d+\.\d+\.\d+) \((.+)\)$", re.MULTILINE)
MIGRATION = re.compile(r"^\| control store \| migration (\d+) \|$", re.MULTILINE)
NOT_YET = "not released yet"
PLACES: dict[str, Callable[[str], Any]] = {
    "clients/openapi/v1.json": lambda text: json.loads(text)["info"]["version"],
    "clients/openapi/v3.json": lambda text: json.loads(text)["info"]["version"],
    "clients/typescript/package.json": lambda text: json.loads(text)["version"],
    "clients/typescript/package-lock.json": lambda text: json.loads(text)["version"],
    "console/package.json": lambda text: json.loads(text)["version"],
    "console/package-lock.json": lambda text: json.loads(text)["version"],
    "deploy/compose.yaml": lambda text: re.findall(r"image: meterline:(\S+)", text)[0],
    "deploy/helm/meterline/Chart.yaml": lambda text: yaml.safe_load(text)["appVersion"],
}


def headings() -> list[tuple[str, str]]:
    """Versions of the changelog, the newest first, with when they were released."""
    return HEADING.findall(read("CHANGELOG.md"))


def test_the_changelog_begins_with_the_version() -> None:
    assert headings()[0][0] == pyproject()["project"]["version"]
    assert [when for _, when in headings()[1:] if when == NOT_YET] == []


@pytest.mark.parametrize("path", PLACES)
def test_a_version_is_the_same_everywhere(path: str) -> None:
    assert PLACES[path](read(path)) == pyproject()["project"]["version"]


def test_what_is_released_has_notes_and_a_recording() -> None:
    recorded = {manifest(name).version for name in names()}
    for version, when in headings():
        assert when == NOT_YET or re.fullmatch(r"\d{4}-\d\d-\d\d", when), "a date"
        assert f"docs/releases/{version}.md" in files()
        there = version in recorded and version in released()
        assert when == NOT_YET or there, "CONTRIBUTING.md, how a release is cut"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_of_a_release_are_those_that_later_ones_are_compared_with(name: str) -> None:
    ((_, when), *_) = headings()
    released_too = read(f"clients/openapi/{name}") == read(f"clients/openapi/released/{name}")
    assert when == NOT_YET or released_too, "run `python -m clients.openapi release`"


def test_notes_name_the_schema_of_their_release() -> None:
    newest = max(int(Path(one).stem[1:5]) for one in files() if one.startswith(f"{MIGRATIONS}/m"))
    for version, when in headings():
        (named,) = MIGRATION.findall(read(f"docs/releases/{version}.md"))
        released_at = newest if when == NOT_YET else manifest(version).migration
        assert int(named) == released_at, f"docs/releases/{version}.md, Schemas"
