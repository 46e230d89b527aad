"""A fault that did nothing is no fault that was survived."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults import process
from tests.faults.bites import Bites, Toothless
from tests.faults.cases import CASES
from tests.faults.labels import AGGREGATOR, DISPATCHER, ERASING, FILLING, Label, Trap


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
    used = {*AGGREGATOR, *DISPATCHER, *FILLING, *ERASING}
    assert used == set(Label)
    assert all(any(label.value in name for name in CASES) for label in Label)


class Died(Exception):
    """Where a process would have died."""


def _died() -> None:
    raise Died


class Client:
    """What reached the store below the traps."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.packed: list[bytes] = []

    def create_insert_context(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(column_types=())

    def insert(self, data: list[Any], context: object) -> None:
        assert context is not None
        self.rows.append(list(zip(*data, strict=True)))

    def raw_insert(
        self, _table: str, _columns: object, packed: bytes, *_: object, **__: object
    ) -> None:
        self.packed.append(packed)


class Trapped(process.SnaredConnection):
    """A connection with its traps, to no server."""

    def __init__(self) -> None:
        super().__init__("http://nowhere")
        self.client: Any = Client()

    async def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self.client)


@pytest.fixture
def snare() -> Iterator[process.Snare]:
    """That of this process; it says when it would have killed it."""
    snare = process.SNARE
    snare.__dict__["spring"] = _died
    yield snare
    snare.__dict__.update(trap=None, _times=0)
    del snare.__dict__["spring"]


async def test_half_of_a_block_is_in_when_the_process_dies(snare: process.Snare) -> None:
    connection = Trapped()
    snare.trap = Trap(Label.HALF, 1)
    with pytest.raises(Died):
        await connection.insert("events", ("a",), [(1,), (2,), (3,), (4,)])
    assert connection.client.rows == [[(1,), (2,)]]


async def test_half_of_the_first_positions_is_in_when_the_process_dies(
    snare: process.Snare,
) -> None:
    connection = Trapped()
    snare.trap = Trap(Label.HALF_SEEN, 1)
    with pytest.raises(Died):
        await connection.insert_packed("seen", ("a",), iter([b"1", b"2", b"3", b"4"]))
    assert connection.client.packed == [b"12"]


async def test_without_a_trap_all_is_in(snare: process.Snare) -> None:
    assert snare.trap is None
    connection = Trapped()
    await connection.insert("events", ("a",), [(1,), (2,)])
    await connection.insert_packed("seen", ("a",), iter([b"1", b"2"]))
    assert (connection.client.rows, connection.client.packed) == ([[(1,), (2,)]], [b"12"])
