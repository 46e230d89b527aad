"""`make disk`: each kind of fault at every call (or every STEP-th) of each embedded store."""

import sys

from tests.disk.disk import Kind
from tests.disk.trial import length, tried

STORES = ("log", "control", "seen", "usage")
KINDS = (Kind.FULL, Kind.BROKEN, Kind.SHORT, Kind.CUT)


def main(step: int) -> int:
    """Try them all; the exit code."""
    lost = 0
    for store in STORES:
        for fresh in (True, False):
            for kind in KINDS:
                calls = range(1, length(store, kind, fresh=fresh) + 1, step)
                failed = [call for call in calls if not _survived(store, kind, call, fresh=fresh)]
                lost += len(failed)
                when = "first" if fresh else "second"
                done = f"{len(calls)} faults, {len(calls) - len(failed)} survived"
                sys.stdout.write(f"{store} {kind.name} in the {when} life: {done} {failed or ''}\n")
                sys.stdout.flush()
    return 1 if lost else 0


def _survived(store: str, kind: Kind, call: int, *, fresh: bool) -> bool:
    try:
        tried(store, kind, call, fresh=fresh)
    except AssertionError as error:
        sys.stderr.write(f"{store} {kind.name} at {call}: {error}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
