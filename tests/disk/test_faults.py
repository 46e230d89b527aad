"""Each embedded store meets a fault in the middle of its first life, and starts again whole.

`make disk` does so at every call of the first and of a later life. A fault that does not bite fails
the test.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disk.disk import Calls, Disk, Kind
from tests.disk.nursery import Nursery
from tests.disk.trial import live, meet

CASES = [
    ("log", Kind.FULL, 48),
    ("log", Kind.BROKEN, 48),
    ("log", Kind.SHORT, 31),
    ("log", Kind.CUT, 48),
    ("control", Kind.FULL, 155),
    ("control", Kind.BROKEN, 155),
    ("control", Kind.CUT, 60),
    ("seen", Kind.FULL, 43),
    ("seen", Kind.BROKEN, 43),
    ("seen", Kind.CUT, 20),
    ("usage", Kind.FULL, 120),
    ("usage", Kind.BROKEN, 120),
    ("usage", Kind.CUT, 120),
    # a file of a part: of its rows, of its columns, of its checksums
    ("usage", Kind.BROKEN, 230),
    ("usage", Kind.BROKEN, 240),
    ("usage", Kind.BROKEN, 248),
]


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Disk, Nursery]]:
    """A disk, and lives on it that need not load everything anew."""
    folder = tmp_path_factory.mktemp("faults")
    disk = Disk(folder / "disk", folder / "beside")
    with Nursery(disk, folder / "beside") as one:
        yield disk, one
    disk.close()


@pytest.mark.parametrize(("store", "kind", "call"), CASES)
def test_a_store_that_met_a_fault_starts_again_whole(
    nursery: tuple[Disk, Nursery], store: str, kind: Kind, call: int
) -> None:
    disk, lives = nursery
    disk.clear()
    meet(store, kind, call, disk, lives.live, fresh=True)


def test_a_usage_store_that_starts_on_a_full_disk_starts_again_with_all_it_had(
    tmp_path: Path,
) -> None:
    """Files can be opened, and no write has room, as on a file system that is full.

    A start altered each table at first: the engine wrote its definition anew, and emptied it.
    """
    disk = Disk(tmp_path / "usage", tmp_path / "beside")
    first = live("usage", disk, "first", frozenset())
    assert (first.code, len(first.took)) == (0, 4), first.words
    definitions = {path: path.read_bytes() for path in disk.folder.rglob("*.sql")}
    assert len(definitions) > 1, "a table has one"
    disk.plan(Kind.FULL, calls=Calls.WRITE)
    struck = live("usage", disk, "struck", first.took)
    assert disk.hit, "the disk was full for it"
    assert (struck.code, struck.had) == (1, first.took), struck.words[-3000:]
    assert {path: path.read_bytes() for path in definitions} == definitions
    disk.spare()
    again = live("usage", disk, "again", first.took | struck.took)
    assert (again.code, again.had) == (0, first.took | struck.took), again.words[-3000:]
    disk.close()
