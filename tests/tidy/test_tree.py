"""The rules of tests/tidy/rules.py, over every file of the checkout."""

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
    assert "meterline/ports.py" in python_files()


def test_no_file_is_longer_than_a_sitting() -> None:
    settle((path, found) for path in python_files() for found in rules.file_length(read(path)))


def test_no_function_is_longer_than_a_screen() -> None:
    settle((path, found) for path in python_files() for found in rules.function_length(read(path)))


def test_no_name_says_nothing() -> None:
    settle((path, found) for path in python_files() for found in rules.banned_name(path))


def test_one_file_reads_the_clock() -> None:
    settle((path, found) for path in python_files() for found in rules.clock_read(path, read(path)))


def test_nothing_is_mocked() -> None:
    settle((path, found) for path in python_files() for found in rules.mock_used(read(path)))


def test_only_what_talks_to_a_person_prints() -> None:
    settle((path, found) for path in python_files() for found in rules.print_used(path, read(path)))


def test_no_file_names_a_registry_or_a_machine() -> None:
    settle((path, found) for path in text_files() for found in rules.foreign_place(read(path)))


def test_ports_are_protocols_only() -> None:
    path = "meterline/ports.py"
    settle((path, found) for found in rules.more_than_protocols(read(path)))


def test_every_module_of_the_language_is_held_pure() -> None:
    contracts = {c["id"]: c for c in pyproject()["tool"]["importlinter"]["contracts"]}
    language = {
        path.removesuffix(".py").replace("/", ".")
        for path in python_files()
        if path.startswith("meterline/") and path.count("/") == 1
        if not path.endswith("__init__.py")
    }
    layer = {name.strip(" ()\n") for name in contracts["layers"]["layers"][-1].split(":")}
    assert language == set(contracts["pure"]["source_modules"]), "pyproject.toml, contract `pure`"
    assert language == layer, "pyproject.toml, contract `layers`, last layer"


def test_every_folder_of_tests_is_run() -> None:
    run = set(pyproject()["tool"]["pytest"]["ini_options"]["testpaths"])
    holding = {
        "/".join(path.split("/")[:2])
        for path in python_files()
        if path.startswith("tests/") and path.rsplit("/", 1)[1].startswith("test_")
    }
    assert holding <= run, "pyproject.toml, testpaths"
