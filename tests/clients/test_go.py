"""The Go client: its own tests, and its examples against a live server."""

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from clients.openapi.tools import GO, go_command, run
from tests.clients.conftest import Access
from tests.clients.way import assert_first_usage, assert_shown, assert_whole, told

pytestmark = pytest.mark.usefixtures("whole_ways")


def test_its_own_tests_pass() -> None:
    printed = run([go_command(), "test", "./..."], GO)
    assert printed.startswith("ok")


def test_it_is_formatted_and_vetted() -> None:
    assert run([str(Path(go_command()).with_name("gofmt")), "-l", "."], GO) == ""
    run([go_command(), "vet", "./..."], GO)


def test_the_example_of_the_readme_works(go_programs: Path, access: Access) -> None:
    assert_shown(GO, "example/first_usage/main.go")
    assert_first_usage(told([str(go_programs / "first_usage")], go_programs, access("go")))


def test_the_whole_way(whole_ways: Mapping[str, Future[str]]) -> None:
    assert_whole(whole_ways["go"].result())
