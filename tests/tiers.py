"""Tiers of tests: each test is in one, by its closest mark, or else by its folder and fixtures.

| tier | run by | holds |
|---|---|---|
| quick | `make quick` | rules, and steps without a store: few samples of each property |
| standard | `make test`, with quick | adapters on real servers, simulated worlds, short journeys |
| long | `make test-all`, with all others; a share: `make test-share` | flights, kills, bad disks |
"""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Final


class Tier(IntEnum):
    """A tier; a run of one holds all that are lower."""

    QUICK = 1
    STANDARD = 2
    LONG = 3


FOLDERS: Final = {
    "tidy": Tier.QUICK,
    "unit": Tier.QUICK,
    "upgrade": Tier.QUICK,
    "soak": Tier.QUICK,
    "contract": Tier.STANDARD,
    "simulation": Tier.STANDARD,
    "disk": Tier.LONG,
    "clients": Tier.LONG,
    "deploy": Tier.LONG,
    "console": Tier.LONG,
    "conformance": Tier.LONG,
    "faults": Tier.LONG,
    "journey": Tier.LONG,
}
"""The tier of a folder of `tests`: of every test in it that has no mark of its own."""

MARKS: Final = {"standard": Tier.STANDARD, "long": Tier.LONG}
"""Marks of a test or a module. No mark makes a test quick: a quick run does not look into the other
folders.
"""


ENGINES: Final = frozenset(
    {"kafka_service", "clickhouse_service", "postgres_service", "chdb_url", "migrated"}
)
"""Fixtures with a server, the embedded ClickHouse or a control store: no quick test has one."""


def folder_of(path: str) -> str:
    """The folder of `tests` that a path relative to the checkout lies in."""
    parts = path.split("/")
    return parts[1] if len(parts) > 1 and parts[0] == "tests" else ""


def tier_of(path: str, marks: Iterable[str], fixtures: Collection[str] = ()) -> Tier:
    """The one tier of a test; its marks are given from the closest on (test, class, module). Raises
    `KeyError` for a folder that has no tier.
    """
    for mark in marks:
        if mark in MARKS:
            return MARKS[mark]
    least = Tier.QUICK if ENGINES.isdisjoint(fixtures) else Tier.STANDARD
    return max(FOLDERS[folder_of(path)], least)


def holds_some(folder: str, asked: Tier) -> bool:
    """Whether a run of a tier has to look into a folder of `tests`."""
    return asked > Tier.QUICK or FOLDERS.get(folder, Tier.QUICK) is Tier.QUICK
