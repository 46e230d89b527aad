"""The TypeScript client: its own tests, and its examples against a live server."""

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from clients.openapi.tools import TYPESCRIPT, npm_packages, run
from tests.clients.conftest import Access
from tests.clients.way import assert_first_usage, assert_shown, assert_whole, told

pytestmark = pytest.mark.usefixtures("whole_ways")


def test_its_own_tests_pass(typescript: Path) -> None:
    sources = {path.stem for path in (TYPESCRIPT / "test").glob("*.test.ts")}
    files = [typescript / "test" / f"{name}.js" for name in sorted(sources)]
    assert len(files) >= 4
    printed = run(["node", "--test", *map(str, files)], TYPESCRIPT)
    assert "# fail 0" in printed
    assert "# skipped 0" in printed


def test_it_is_formatted() -> None:
    run(
        [str(npm_packages(TYPESCRIPT) / "prettier"), "--check", "src/*.ts", "test", "example"],
        TYPESCRIPT,
    )


def test_the_example_of_the_readme_works(typescript: Path, access: Access) -> None:
    assert_shown(TYPESCRIPT, "example/first_usage.ts")
    assert_first_usage(told(["node", "example/first_usage.js"], typescript, access("typescript")))


def test_the_whole_way(whole_ways: Mapping[str, Future[str]]) -> None:
    assert_whole(whole_ways["typescript"].result())
