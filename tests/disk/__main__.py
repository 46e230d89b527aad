"""`make disk`: each kind of fault at every call (or every STEP-th) of each embedded store.

python -m tests.disk [STEP [STORE ...]]
"""

import sys
import tempfile
from pathlib import Path

from tests.disk.disk import Disk, Kind
from tests.disk.nursery import Nursery
from tests.disk.trial import Live, length, meet

STORES = ("log", "control", "seen", "usage")
KINDS = (Kind.FULL, Kind.BROKEN, Kind.SHORT, Kind.CUT)


def main(step: int, stores: tuple[str, ...]) -> int:
    """Try them all; the exit code."""
    return 1 if sum([_lost(store, step) for store in stores]) else 0


def _lost(store: str, step: int) -> int:
    """Of how many faults a store did not come back whole."""
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        beside = Path(scratch) / "beside"
        disk = Disk(Path(scratch) / store, beside)
        with Nursery(disk, beside) as nursery:
            for fresh in (True, False):
                for kind in KINDS:
                    disk.clear()
                    calls = range(1, length(store, kind, disk, nursery.live, fresh=fresh) + 1, step)
                    failed = [
                        call
                        for call in calls
                        if not _met(store, kind, call, disk, nursery.live, fresh=fresh)
                    ]
                    lost += len(failed)
                    when = "first" if fresh else "second"
                    done = f"{len(calls)} faults, {len(calls) - len(failed)} survived"
                    sys.stdout.write(
                        f"{store} {kind.name} in the {when} life: {done} {failed or ''}\n"
                    )
                    sys.stdout.flush()
    return lost


def _met(store: str, kind: Kind, call: int, disk: Disk, live: Live, *, fresh: bool) -> bool:
    disk.clear()
    try:
        meet(store, kind, call, disk, live, fresh=fresh)
    except AssertionError as error:
        sys.stderr.write(f"{store} {kind.name} at {call}, fresh={fresh}: {error}\n")
        return False
    return True


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(int(given[0]) if given else 1, tuple(given[1:]) or STORES))
