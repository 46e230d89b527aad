"""A fault that did nothing is no fault that was survived."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from meterline.backends.clickhouse.connection import Connection, Rows
from tests.faults import process
from tests.faults.bites import Bites, Toothless
from tests.faults.cases import CASES
from tests.faults.labels import AGGREGATOR, DISPATCHER, FILLING, Label, Trap


def test_a_fault_that_does_nothing_fails() -> None:
    bites = Bites()
    with pytest.raises(Toothless, match="a fault: nothing proves"), bites.proven("a fault"):
        pass
    with bites.proven("another one"):
        bites.book("died", 2)
    with pytest.raises(Toothless, match="a third one"), bites.proven("a third one"):
        pass  # what an earlier one did proves nothing
    assert bites.seen == {"died": 2}


@pytest.mark.parametrize("times", [0, -1, False])
def test_a_proof_that_was_not_seen_fails_where_it_is_booked(times: int) -> None:
    bites = Bites()
    with pytest.raises(Toothless, match="did not bite: died"):
        bites.book("died", times)
    assert not bites.seen


def test_what_goes_wrong_in_a_fault_is_told_as_it_is() -> None:
    with pytest.raises(OSError, match="gone"), Bites().proven("a fault"):
        raise OSError("gone")


def test_every_label_is_used_by_a_fault() -> None:
    used = {*AGGREGATOR, *DISPATCHER, *FILLING}
    assert used == set(Label)
    assert all(any(label.value in name for name in CASES) for label in Label)


class Inserted:
    """What reached the store below the traps."""

    def __init__(self) -> None:
        self.packed: list[list[bytes]] = []
        self.rows: list[Rows] = []


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inserted]:
    """A connection below the traps that keeps what it is given, and a trap that only says so."""
    below = Inserted()

    async def insert(_self: object, _table: str, _columns: Sequence[str], rows: Rows) -> None:
        below.rows.append(rows)

    async def insert_packed(
        _self: object, _table: str, _columns: Sequence[str], rows: Iterable[bytes]
    ) -> None:
        below.packed.append(list(rows))

    monkeypatch.setattr(Connection, "insert", insert)
    monkeypatch.setattr(Connection, "insert_packed", insert_packed)
    monkeypatch.setattr(process.Snare, "spring", _died)
    snare = process.Snare()
    monkeypatch.setattr(process, "SNARE", snare)
    yield below
    await asyncio.sleep(0)


class Died(Exception):
    """Where a process would have died."""


def _died(_snare: process.Snare) -> None:
    raise Died


async def test_half_of_a_block_is_in_when_the_process_dies(store: Inserted) -> None:
    connection = object.__new__(process.SnaredConnection)
    process.SNARE.trap = Trap(Label.HALF, 1)
    with pytest.raises(Died):
        await connection.insert("events", ("a",), [(1,), (2,), (3,), (4,)])
    assert store.rows == [[(1,), (2,)]]


async def test_half_of_the_first_positions_is_in_when_the_process_dies(store: Inserted) -> None:
    connection = object.__new__(process.SnaredConnection)
    process.SNARE.trap = Trap(Label.HALF_SEEN, 1)
    with pytest.raises(Died):
        await connection.insert_packed("seen", ("a",), iter([b"1", b"2", b"3", b"4"]))
    assert store.packed == [[b"1", b"2"]]


async def test_without_a_trap_all_is_in(store: Inserted) -> None:
    connection = object.__new__(process.SnaredConnection)
    await connection.insert("events", ("a",), [(1,), (2,)])
    await connection.insert_packed("seen", ("a",), iter([b"1", b"2"]))
    assert (store.rows, store.packed) == ([[(1,), (2,)]], [[b"1", b"2"]])
