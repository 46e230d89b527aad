"""What may run side by side, and which long tests a CI runs.

`make test`, `make test-share` and `make test-all` run three tests at once, each in a process of its
own. Two of three are waiting at most times, and there are two cores.
"""

import zlib
from pathlib import PurePosixPath
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.tiers import FOLDERS, Tier

# What shares something dear to start. A module that is not here, nor a folder above it, is by
# itself: the three servers are started once for each process.
TOGETHER: Final = {
    # One year of flights through both set-ups, and what comes due by itself meanwhile.
    **dict.fromkeys(
        (
            f"journey/test_{name}.py"
            for name in (
                "flights",
                "inbox",
                "many_readers",
                "metrics",
                "redrives",
                "refusals",
                "report",
                "same_answers",
                "verdicts",
                "by_schedule",  # last: nearly all of it is waiting, which began with the first
            )
        ),
        "flights",
    ),
    # The longest three: each begins in a process, while the store that it rewrites is small.
    "unit/aggregator/test_dropped_revisions.py": "unit/aggregator/test_dropped_revisions.py",
    "unit/aggregator/test_erasure.py": "unit/aggregator/test_erasure.py",
    "unit/aggregator": "unit/aggregator",
    "contract/usage": "contract/usage",
    "contract/reports": "contract/reports",
    "contract/control_store": "contract/control_store",
    "contract/log": "contract/log",
    "contract/connections": "contract/log",  # the doctor asks all three servers
    "contract/webhook": "contract/webhook",
    "conformance": "conformance",
    "clients": "clients",
    "deploy": "deploy",  # helm is built once
    "journey/test_image.py": "deploy",
    "console": "console",
    "console/doing": "console/doing",
    "console/test_crowd.py": "console/test_crowd.py",
    "console/test_for_everybody.py": "console/test_for_everybody.py",
    "console/test_built.py": "console/test_built.py",
    "console/test_pages.py": "console/test_pages.py",
}
# Each test of these is by itself: they share nothing, and fill what is left in the end.
APART: Final = frozenset({"simulation/test_worlds.py"})
# Begun in this order: what takes the longest comes first, what works in turn with what waits, so
# that both cores are used. What is not here follows, then whatever goes test by test.
LONGEST: Final = (
    # Rewrites whole tables of the store that its process has: ten times as long once that is large,
    # so no process does this after contract/usage.
    "unit/aggregator/test_dropped_revisions.py",
    "unit/aggregator/test_erasure.py",
    "unit/aggregator",
    "flights",
    "contract/usage",
    "faults/test_faults.py",
    "journey/test_crashes.py",
    "conformance",
    "journey/test_recovery.py",
    "journey/test_erasure.py",
    "console/doing",
    "console/test_for_everybody.py",
    "journey/test_late.py",
    "journey/test_in_turn.py",
    "console",
    "journey/test_lost_store.py",
    "contract/reports",
    "journey/test_secured.py",
    "contract/control_store",
    "console/test_pages.py",
    "console/test_built.py",
    "journey/test_minutes.py",
    "clients",
    "journey/test_keys.py",
    "deploy",
    "journey/test_reconcile.py",
    "console/test_crowd.py",
    "disk/test_whole_process.py",
    "contract/log",
    "journey/test_workers.py",
    "journey/test_start_faults.py",
    "disk/test_full_server.py",
    "journey/test_demo.py",
    "journey/test_takeover.py",
    "disk/test_faults.py",
    "journey/test_revisions.py",
    "journey/test_ask_again.py",
)
SHARES: Final = 4
"""CI has to end within half an hour, and all long tests take longer: each commit runs one share."""
IN_EVERY_SHARE: Final = frozenset({"console/test_pages.py", "journey/test_late.py"})
"""What people look at, in Chromium, and the whole way of an event to a receiver on both set-ups."""


def group(nodeid: str) -> str:
    """Whatever has the same group runs in one process, in its order."""
    module = nodeid.split("::", 1)[0].removeprefix("tests/")
    if module in APART:
        return nodeid
    places = (module, *map(str, PurePosixPath(module).parents))
    return next((TOGETHER[place] for place in places if place in TOGETHER), module)


def turn(nodeid: str) -> tuple[int, int]:
    """The place of a test among the others."""
    module = nodeid.split("::", 1)[0].removeprefix("tests/")
    name = group(nodeid)
    among = _AMONG.get(module, 0)
    if name in LONGEST:
        return LONGEST.index(name), among
    return len(LONGEST) + (module in APART), among


def is_in_share(nodeid: str, share: int) -> bool:
    """Whether a share has a long test. Shares are counted on without end: `SHARES` of them, one
    after another, hold all.
    """
    name = group(nodeid)
    return name in IN_EVERY_SHARE or _share_of(name) == share % SHARES


def _share_of(name: str) -> int:
    """What takes the longest is dealt out to and fro, so that shares take about as long."""
    if name not in _DEALT:
        return zlib.crc32(name.encode()) % SHARES
    back, place = divmod(_DEALT.index(name), SHARES)
    return SHARES - 1 - place if back % 2 else place


_DEALT: Final = [
    name for name in LONGEST if FOLDERS.get(name.split("/")[0], Tier.LONG) is Tier.LONG
]

_AMONG: Final = {module: place for place, module in enumerate(TOGETHER) if "/test_" in module}
"""The order in which modules are named is that in which they run, where they run together."""


class SideBySide(LoadScopeScheduling):
    """Gives groups to the processes that are free: marks for it do nothing under pytest 9.2.

    A process that dies is replaced. xdist 3.8 takes what replaces it for one that knows the tests
    already, and gives on groups that have ended: the first ends the run, the second may hang it
    (pytest-xdist 1362, 1378).
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """What ended in a process that died is not begun again."""
        groups = self.assigned_work[node]
        self.assigned_work[node] = {
            name: tests for name, tests in groups.items() if not all(tests.values())
        }
        under_way: str | None = super().remove_node(node)
        return under_way

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.registered_collections:  # else it looks for tests still, and asks then
            super()._reschedule(node)
