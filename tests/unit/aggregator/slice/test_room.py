"""Where open slices take all the memory that they may, one is finished after another."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.slice.room import Room
from meterline.limits import OPEN_TURN_MS
from meterline.usage import SliceId


@dataclass(slots=True)
class Open:
    """An open slice, as far as its memory goes."""

    id: SliceId
    held_bytes: int = 0


@dataclass(slots=True)
class Part:
    """A partition with records that wait in the log."""

    number: int
    waiting: int = 0
    offset: int = 0
    slice: Open | None = None
    ended: Open | None = None

    def unsealed(self) -> list[Open]:
        """As `Partition`."""
        return [it for it in (self.ended, self.slice) if it is not None]

    def take(self, slice_records: int) -> None:
        """A record of one byte; it ends the slice that is full, and seals the one before it."""
        if self.slice is not None and self.slice.held_bytes == slice_records:
            self.ended, self.slice = self.slice, None
        if self.slice is None:
            self.slice = Open(SliceId(1, self.number, self.offset))
        self.slice.held_bytes += 1
        self.offset += 1
        self.waiting -= 1


@dataclass(slots=True)
class Shell:
    """Asks as a worker does."""

    room: Room
    parts: dict[int, Any] = field(default_factory=dict)
    now_ms: int = 1_000_000

    def look(self) -> bool:
        return self.room.look(self.parts, self.now_ms)

    def may(self, number: int) -> bool:
        return self.room.may_grow(self.parts[number], self.now_ms)

    def held(self) -> int:
        return sum(one.held_bytes for it in self.parts.values() for one in it.unsealed())


def shell(bytes_max: int, *held: int) -> Shell:
    """Partitions whose slices hold so much."""
    made = Shell(Room(bytes_max))
    for number, size in enumerate(held):
        made.parts[number] = Part(number, slice=Open(SliceId(1, number, 0), size))
    return made


def test_while_there_is_memory_all_go_on() -> None:
    it = shell(10, 4, 5)
    assert not it.look()
    assert it.may(0)
    assert it.may(1)
    assert not it.room.is_full


def test_one_goes_on_until_its_slice_is_sealed_then_another() -> None:
    it = shell(10, 6, 6)
    assert it.look()
    assert not it.look(), "it is told once"
    assert it.may(1), "it asked first"
    assert not it.may(0)
    it.parts[1].slice = Open(SliceId(1, 1, 99), 5)
    it.look()
    assert it.room.is_full
    assert it.may(0)
    assert not it.may(1)
    it.parts[0].slice = None
    it.look()
    assert not it.room.is_full
    assert it.may(0)
    assert it.may(1)


def test_while_a_slice_is_being_sealed_nobody_takes_more_memory() -> None:
    it = shell(10, 6, 6)
    it.look()
    assert it.may(0)
    it.parts[0].ended, it.parts[0].slice = it.parts[0].slice, None
    it.look()
    assert not it.may(0)
    assert not it.may(1)
    it.parts[0].ended = None
    it.look()
    assert it.may(0)
    assert it.may(1)


def test_whoever_waits_has_a_turn_however_much_comes_for_those_that_ask_before() -> None:
    it, turns = shell(10, 4, 4, 4, 4), []
    for _ in range(12):
        it.look()
        for number, part in it.parts.items():  # in this order, as a worker does
            if it.may(number):
                it.room.took(number, 1, it.now_ms)
                part.offset += 1
                part.slice = Open(SliceId(1, number, part.offset), 4)  # there is always more
                turns.append(number)
    assert turns == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("how", ["taken away", "nothing there", "silent"])
def test_a_turn_ends_where_nothing_comes_of_it(how: str) -> None:
    it = shell(10, 6, 6)
    it.look()
    assert it.may(0)
    if how == "taken away":
        del it.parts[0]
        it.parts[1].slice.held_bytes = 11
    elif how == "nothing there":
        it.room.took(0, 0, it.now_ms)
    else:
        it.room.took(0, 3, it.now_ms)
        it.room.took(0, 0, it.now_ms)
        it.now_ms += OPEN_TURN_MS - 1
        it.look()
        assert not it.may(1), "more may come for a while"
        it.now_ms += 1
    it.look()
    assert it.may(1)


def test_who_takes_some_in_keeps_its_turn() -> None:
    it = shell(10, 6, 6)
    it.look()
    assert it.may(0)
    for _ in range(5):
        it.now_ms += OPEN_TURN_MS - 1
        it.room.took(0, 1, it.now_ms)
        it.look()
        assert not it.may(1)
        assert it.may(0)


@pytest.mark.parametrize(("bytes_max", "turns"), [(10, True), (100, False)])
def test_who_waits_stands_still_only_where_nobody_gets_on(bytes_max: int, turns: bool) -> None:
    it = shell(bytes_max, 6, 6)
    it.look()
    assert it.may(0)
    assert not it.room.gets_on(it.now_ms), "nothing was taken in"
    it.room.took(0, 1, it.now_ms)
    assert it.room.gets_on(it.now_ms) is turns
    assert not it.room.gets_on(it.now_ms + 2 * OPEN_TURN_MS)


@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 8),
    records=st.integers(1, 12),
    bytes_max=st.integers(1, 60),
    seals_often=st.floats(0.1, 1),
)
@settings(max_examples=50)
def test_all_is_counted_and_no_more_is_held_than_the_bound_and_a_slice(
    seed: int, partitions: int, records: int, bytes_max: int, seals_often: float
) -> None:
    rng, it = Random(seed), Shell(Room(bytes_max))
    for number in range(partitions):
        it.parts[number] = Part(number, waiting=rng.randrange(200))
    left = sum(one.waiting for one in it.parts.values())
    for _ in range(30 * left + 30_000):
        if not any(one.waiting for one in it.parts.values()):
            return
        part = it.parts[rng.randrange(partitions)]
        if rng.random() < seals_often:
            it.parts[rng.randrange(partitions)].ended = None
        it.now_ms += rng.randrange(OPEN_TURN_MS // 500)
        it.look()
        if it.may(part.number):
            some = min(1, part.waiting)
            if some:
                part.take(records)
            it.room.took(part.number, some, it.now_ms)
        # while all have records; a turn that ends by silence leaves a part of a slice
        if all(one.waiting for one in it.parts.values()):
            assert it.held() <= bytes_max + records + partitions
    pytest.fail("some wait for ever")
