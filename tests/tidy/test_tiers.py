"""Every test is in one tier, each tier has its target, and CI runs two of them and a share."""

import re

import pytest

from tests.tidy.tree import pyproject, python_files, read
from tests.tiers import ENGINES, FOLDERS, MARKS, Tier, folder_of, holds_some, tier_of

TARGETS = {"quick": Tier.QUICK, "test": Tier.STANDARD, "test-all": Tier.LONG}


def recipe(target: str) -> str:
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    assert found is not None, f"Makefile has no target {target}"
    return found[1]


def test_every_folder_with_tests_has_a_tier() -> None:
    holding = {
        folder_of(path)
        for path in python_files()
        if path.startswith("tests/") and path.rsplit("/", 1)[1].startswith("test_")
    }
    assert holding == FOLDERS.keys(), "tests/tiers.py, FOLDERS"
    run = pyproject()["tool"]["pytest"]["ini_options"]["testpaths"]
    assert {folder_of(path) for path in run} == holding, "pyproject.toml, testpaths"


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("marks", [[], ["standard"], ["long"], ["parametrize", "long", "standard"]])
def test_a_test_is_run_by_its_tier_and_by_every_higher_one(folder: str, marks: list[str]) -> None:
    tier = tier_of(f"tests/{folder}/test_x.py", marks)
    named = [MARKS[mark] for mark in marks if mark in MARKS]
    assert tier is (named[0] if named else FOLDERS[folder])
    # whatever its mark, its folder is looked into by the runs that hold it
    assert all(holds_some(folder, asked) for asked in Tier if tier <= asked)
    assert tier <= Tier.LONG


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_test_that_needs_an_engine_is_not_quick(engine: str) -> None:
    assert tier_of("tests/unit/test_x.py", [], ["tmp_path", engine]) is Tier.STANDARD
    assert tier_of("tests/journey/test_x.py", [], [engine]) is Tier.LONG
    assert re.search(rf"^def {engine}\(", read("tests/conftest.py"), re.MULTILINE)


def test_a_folder_without_a_tier_is_an_error() -> None:
    with pytest.raises(KeyError):
        tier_of("tests/new/test_x.py", [])


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_runs_its_tier(target: str) -> None:
    said = re.findall(r"--tier (\w+)", recipe(target))
    assert said == [TARGETS[target].name.lower()]


def test_ci_runs_check_and_tests_and_a_share() -> None:
    (targets,) = re.findall(r"^for target in (.*); do$", read(".ci/run"), re.MULTILINE)
    assert targets.split() == ["check", "test", "test-share"]
    assert "--share $(SHARE)" in recipe("test-share")
    assert "`make check`, `make test` and `make test-share`" in read("README.md")
