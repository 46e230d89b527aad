"""The built files are what the source says, and its rules hold."""

import filecmp
from pathlib import Path

from clients.openapi.tools import ROOT, npm_packages, run
from tests.console.watched import CONSOLE

BUILT = ROOT / "control" / "console"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_built_files_are_those_of_the_source(tmp_path: Path) -> None:
    vite = npm_packages(CONSOLE) / "vite"
    run([str(vite), "build", "--logLevel", "error", "--outDir", str(tmp_path)], CONSOLE)
    anew = _files(tmp_path)
    assert anew == _files(BUILT), "run `make console` and commit control/console"
    _, differing, failing = filecmp.cmpfiles(tmp_path, BUILT, anew, shallow=False)
    assert (differing, failing) == ([], [])


def test_its_rules_hold() -> None:
    packages = npm_packages(CONSOLE)
    run([str(packages / "tsc")], CONSOLE)
    run([str(packages / "tsc"), "-p", "test"], CONSOLE)
    printed = run(["node", "--test", "dist/test/rules.test.js"], CONSOLE)
    assert "# fail 0" in printed
    assert "# pass 0" not in printed


def test_it_is_formatted() -> None:
    run([str(npm_packages(CONSOLE) / "prettier"), "--check", "src", "test"], CONSOLE)
