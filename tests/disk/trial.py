"""One fault at one call of one store: the store is used, meets it, and must start again whole."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

from tests.disk.disk import FOR_EVER, Calls, Disk, Kind
from tests.disk.lived import Lived

WITHIN_S = 120
COUNTS = {Kind.FULL: FOR_EVER, Kind.BROKEN: 1, Kind.SHORT: 1, Kind.CUT: 1}


Live = Callable[[str, Disk, str, frozenset[str]], Lived]


def live(store: str, disk: Disk, name: str, expected: frozenset[str]) -> Lived:
    """Run a life to its end."""
    command = [sys.executable, "-m", "tests.disk.life", store, str(disk.folder), name]
    ended = subprocess.run(
        [*command, json.dumps(sorted(expected))],
        env={**os.environ, **disk.environment(keeping=True)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=WITHIN_S,
    )
    return Lived.told(ended.returncode, ended.stdout, ended.stderr)


def calls_of(kind: Kind) -> Calls:
    """What can fail in this way."""
    return Calls.WRITE if kind is Kind.SHORT else Calls.ALL


def length(store: str, kind: Kind, disk: Disk, live: Live = live, *, fresh: bool) -> int:
    """How many calls a life has that a fault of this kind can meet. The disk is empty before."""
    if not fresh:
        live(store, disk, "first", frozenset())
    # This kind of disk, without the fault: a store that finds no room free may make fewer calls.
    disk.plan(kind, FOR_EVER - 1, 1, calls_of(kind))
    live(store, disk, "second", frozenset())
    return disk.calls


def meet(store: str, kind: Kind, call: int, disk: Disk, live: Live = live, *, fresh: bool) -> None:
    """Meet the fault at this call, of the first life (`fresh`) or of the second one, on a disk that
    is empty. Raises `AssertionError` where it did not bite, or anything acknowledged is lost.
    """
    taken: frozenset[str] = frozenset()
    if not fresh:
        first = live(store, disk, "first", frozenset())
        assert (first.code, len(first.took)) == (0, 4), first.words
        taken = first.took
    disk.plan(kind, call, COUNTS[kind], calls_of(kind))
    struck = live(store, disk, "struck", taken)
    # chDB asks how much room is free, and makes no call where there is none.
    told = kind is Kind.FULL and "not enough space" in struck.words
    assert disk.hit or told, "the fault bit"
    assert struck.code in ((-9,) if kind is Kind.CUT else (0, 1)), struck.words[-3000:]
    taken |= struck.took
    disk.spare()
    if kind is Kind.CUT:
        disk.lose()
    again = live(store, disk, "again", taken)
    assert (again.code, len(again.took)) == (0, 4), again.words[-3000:]
    assert again.had == taken, f"lost: {sorted(taken - again.had)}"
