"""The ways of an upgrade: the release before counts one half, this build the other one."""

import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.journey.processes import completed
from tests.journey.questions import JANUARY
from tests.journey.setups import Servers
from tests.nursery.forked import ROOT
from tests.recovery.ground import Ground
from tests.recovery.installation import Installation, last_month, stop
from tests.recovery.load import under_load
from tests.recovery.steps import Steps
from tests.recovery.ways import CLEAN, SOME
from tests.upgrade.build import builds, unpack_build

PYTHONPATH: Final = "PYTHONPATH"
ORDER: Final = ("aggregate-1", "aggregate-2", "dispatch", "control", "ingest")
"""In which docs/upgrade.md replaces processes."""
(*_, RELEASED) = builds()


def upgraded_embedded(ground: Ground, _servers: Servers, steps: Steps) -> None:
    """One process: it is stopped, and this build goes on with its folder."""
    one = ground.embedded(unpack_build(RELEASED, ground.folder / "build"))
    _first_half(one, ground, steps)
    with steps.step("stop, start this build"):
        one.stop()
        _replace(one, "up")
        is_run_by(one, ROOT)
    with steps.step("send the others") as step:
        one.send(ground.file(ground.half))
        step.events, step.result = ground.flights - ground.half, "counted"
    _whole(one, ground, steps)


def upgraded_on_servers(ground: Ground, servers: Servers, steps: Steps) -> None:
    """Roles on servers: migrated while they run, then replaced one after the other under load."""
    build = unpack_build(RELEASED, ground.folder / "build")
    one = ground.distributed(servers, build=build)
    _first_half(one, ground, steps)
    with steps.step("migrate, replace all under load") as step:
        loaded = under_load(one.setup, ground.lines(ground.half), partial(_roll, one))
        is_run_by(one, ROOT)
        assert loaded.meanwhile > 0, "events came in meanwhile"
        step.events, step.result = loaded.flights, f"{loaded.meanwhile:,} sent meanwhile"
    _whole(one, ground, steps)


def _first_half(one: Installation, ground: Ground, steps: Steps) -> None:
    """What the release before does."""
    with steps.step(f"{RELEASED}: send the first half") as step:
        is_run_by(one, Path(one.settings[PYTHONPATH]))
        one.start()
        one.define()
        one.send(ground.file(end=ground.half))
        one.bill(JANUARY, ground.half)
        step.events, step.result = one.exact(ground.half)["new"], CLEAN


def _roll(one: Installation) -> None:
    """Migrate with this build, then replace each process."""
    one.run_by(ROOT, "migrate")
    for name in ORDER:
        stop(one.setup.processes[name])
        _replace(one, name)


def _replace(one: Installation, name: str) -> None:
    """Start a process that was stopped with the code of this build."""
    process = one.setup.processes[name]
    process.environment[PYTHONPATH] = str(ROOT)
    process.start()


def _whole(one: Installation, ground: Ground, steps: Steps) -> None:
    """What this build answers about both halves, and whether it knows the first one."""
    with steps.step("some again, answers and audit") as step:
        duplicates = one.account(ground.flights)["duplicate"]
        one.send(ground.file(end=SOME))
        account = one.exact(ground.flights)
        assert account["duplicate"] >= duplicates + SOME, "it knows what was counted"
        step.events, step.result = account["new"], CLEAN
    with steps.step("reports after") as step:
        one.still_billed(JANUARY)
        late = one.bill(last_month(ground.flights), ground.flights)
        step.events, step.result = len(late.deliveries), "January as it was, the last as the oracle"


def is_run_by(one: Installation, build: Path) -> None:
    """Fail unless all its processes are given the code of this build, and take it."""
    for process in one.setup.processes.values():
        assert process.environment[PYTHONPATH] == str(build), process.name
    ask = [sys.executable, "-P", "-c", "import meterline; print(meterline.__file__)"]
    found = completed(ask, one.setup.folder, one.settings).stdout.strip()
    assert Path(found).is_relative_to(build), found
