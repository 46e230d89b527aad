"""The code of an earlier build, which is kept with its recording, is what its processes run."""

import sys
from pathlib import Path

from tests.journey.processes import PROGRAM, completed
from tests.nursery.forked import ROOT, is_forkable
from tests.upgrade.build import builds, unpack_build

(*_, NEWEST) = builds()
WHERE = "import sys, meterline; sys.stdout.write(meterline.__file__)"


def test_its_processes_are_started_and_not_forked_from_this_build(tmp_path: Path) -> None:
    build = str(unpack_build(NEWEST, tmp_path / "build"))
    up = [sys.executable, "-m", "tests.faults.process", "up"]
    for command in ([str(PROGRAM), "migrate"], up):
        assert is_forkable(command, {})
        assert is_forkable(command, {"PYTHONPATH": str(ROOT)})
        assert not is_forkable(command, {"PYTHONPATH": build}), "a fork has the code of this build"
    asked = completed([sys.executable, "-P", "-c", WHERE], tmp_path, {"PYTHONPATH": build})
    assert Path(asked.stdout).is_relative_to(build)
