"""What may run side by side: `make test` runs two tests at once, each in a process of its own."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# What shares something that is dear to start: the three servers, or an installation. Contract tests
# go by port: all of them one after the other took longer than everything else together.
# Begun in this order, for these take the longest; other modules follow, each by itself.
TOGETHER: Final = {
    "disk": "processes",
    "journey": "processes",
    "faults": "processes",
    # Rewrites whole tables of the store that its process has: ten times as long once that is large.
    "unit/aggregator": "unit/aggregator",
    "contract/usage": "contract/usage",
    "contract/reports": "contract/reports",
    "contract/control_store": "contract/control_store",
    "conformance": "conformance",
    "clients": "clients",
    "deploy": "deploy",  # helm is built once
    "console": "console",
    "simulation": "simulation",
    "contract/log": "contract/log",
    "contract/connections": "contract/log",  # the doctor asks all three servers
    "contract/webhook": "contract/webhook",
}
LONGEST: Final = (*dict.fromkeys(TOGETHER.values()),)


def group(nodeid: str) -> str:
    """Whatever has the same group runs in one process: modules, but for those of `TOGETHER`."""
    module = nodeid.split("::", 1)[0]
    folder, *below = module.removeprefix("tests/").split("/", 2)
    return TOGETHER.get(folder) or TOGETHER.get("/".join((folder, *below[:1])), module)


def turn(nodeid: str) -> int:
    """The place of a test among the others."""
    name = group(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class SideBySide(LoadScopeScheduling):
    """Gives groups to the processes that are free: marks for it do nothing under pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
