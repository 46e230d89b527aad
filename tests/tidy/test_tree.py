"""The rules of tests/tidy/rules.py, over every file of the checkout."""

import re
from collections.abc import Iterable

import pytest

from tests.tidy import rules
from tests.tidy.tree import files, pyproject, python_files, read, text_files


def settle(findings: Iterable[tuple[str, str]]) -> None:
    """Fail with all findings at once, one a line."""
    listed = [f"{path}: {finding}" for path, finding in findings]
    if listed:
        pytest.fail("\n".join(listed), pytrace=False)


def test_there_is_something_to_check() -> None:
    assert "pyproject.toml" in files()
    assert "meterline/ports/__init__.py" in python_files()


def test_no_file_is_longer_than_a_sitting() -> None:
    settle(
        (path, found) for path in python_files() for found in rules.file_length(path, read(path))
    )


def test_no_function_is_longer_than_a_screen() -> None:
    settle((path, found) for path in python_files() for found in rules.function_length(read(path)))


def test_no_name_says_nothing() -> None:
    settle((path, found) for path in python_files() for found in rules.banned_name(path))


def test_one_file_reads_the_clock() -> None:
    settle((path, found) for path in python_files() for found in rules.clock_read(path, read(path)))


def test_types_are_learned_with_their_modules() -> None:
    settle(
        (path, found) for path in python_files() for found in rules.learned_late(path, read(path))
    )


def test_nothing_is_mocked() -> None:
    settle((path, found) for path in python_files() for found in rules.mock_used(read(path)))


def test_no_test_asserts_wall_time() -> None:
    settle(
        (path, found)
        for path in python_files()
        if path.rsplit("/", 1)[1].startswith("test_")
        for found in rules.wall_time_asserted(read(path))
    )


def test_only_what_talks_to_a_person_prints() -> None:
    settle((path, found) for path in python_files() for found in rules.print_used(path, read(path)))


def test_no_file_names_a_registry_or_a_machine() -> None:
    settle((path, found) for path in text_files() for found in rules.foreign_place(read(path)))


def test_ports_are_protocols_only() -> None:
    path = "meterline/ports/__init__.py"
    settle((path, found) for found in rules.more_than_protocols(read(path)))


def test_every_room_is_held_pure_and_has_a_door() -> None:
    contracts = {c["id"]: c for c in pyproject()["tool"]["importlinter"]["contracts"]}
    edges = {"meterline.backends", "meterline.http", "meterline.runtime"}
    rooms = {
        ".".join(path.removesuffix(".py").split("/")[:2])
        for path in python_files()
        if path.startswith("meterline/") and path != "meterline/__init__.py"
    } - edges
    assert rooms == set(contracts["pure"]["source_modules"]), "pyproject.toml, contract `pure`"
    folders = {name for name in rooms if f"{name.replace('.', '/')}/__init__.py" in python_files()}
    public = [c for name, c in contracts.items() if name.startswith("public-")]
    assert folders == {name for c in public for name in c["allowed_importers"]}, "`public-*`"
    layered = {
        name for layer in contracts["layers"]["layers"] for name in re.split("[ :|]+", layer)
    }
    assert rooms <= layered, "pyproject.toml, contract `layers`"


def test_a_folder_is_seen_at_one_glance() -> None:
    settle(rules.crowded_folders(files()))


def test_no_name_repeats_its_folder() -> None:
    settle(rules.repeated_folder_names(python_files()))


def test_every_folder_of_tests_is_run() -> None:
    run = set(pyproject()["tool"]["pytest"]["ini_options"]["testpaths"])
    holding = {
        "/".join(path.split("/")[:2])
        for path in python_files()
        if path.startswith("tests/") and path.rsplit("/", 1)[1].startswith("test_")
    }
    assert holding <= run, "pyproject.toml, testpaths"
