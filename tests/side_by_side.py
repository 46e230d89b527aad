"""What may run side by side: `make test` runs two tests at once, each in a process of its own."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# What shares something that is dear to start: the three servers, or an installation.
TOGETHER: Final = {
    "disk": "processes",
    "journey": "processes",
    "faults": "processes",
    "conformance": "conformance",
    "clients": "clients",
    "simulation": "simulation",
}
# Contract tests of a port share the servers. Ports are apart: all of them one after the other
# took longer than everything else together.
APART: Final = "contract"
# Begun in this order, for they take the longest; the modules follow as they are.
LONGEST: Final = (
    "processes",
    "contract/usage",
    "contract/reports",
    "contract/control_store",
    "conformance",
    "clients",
    "simulation",
)


def group(nodeid: str) -> str:
    """Whatever has the same group runs in one process: modules, but for those named above."""
    module = nodeid.split("::", 1)[0]
    folder, _, below = module.removeprefix("tests/").partition("/")
    if folder == APART and "/" in below:
        return f"{folder}/{below.split('/', 1)[0]}"
    return TOGETHER.get(folder, module)


def turn(nodeid: str) -> int:
    """The place of a test among the others."""
    name = group(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class SideBySide(LoadScopeScheduling):
    """Gives groups to the processes that are free: marks for it do nothing under pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
