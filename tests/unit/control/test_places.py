"""Places of large answers: fair, bounded, never lost."""

import asyncio
from dataclasses import replace

import pytest

from control.usage.places import LARGE, Caller, Places
from meterline.limits import (
    LARGE_ANSWERS_MAX,
    LARGE_ANSWERS_OF_NAMESPACE_MAX,
    LARGE_ANSWERS_WAITING_MAX,
    LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX,
)
from meterline.problem import Problem, ProblemType

A, B, D, E, Z = (Caller(name) for name in "abdez")


def _names(count: int) -> list[Caller]:
    return [Caller(f"n{number}") for number in range(count)]


async def _waiting(places: Places, name: Caller) -> asyncio.Task[None]:
    task = asyncio.ensure_future(places.enter(name))
    await asyncio.sleep(0)
    return task


def test_a_namespace_leaves_places_to_others() -> None:
    places = Places()
    taken = [places.enter_now(A) for _ in range(LARGE_ANSWERS_MAX)]
    assert sum(taken) == LARGE_ANSWERS_OF_NAMESPACE_MAX < LARGE_ANSWERS_MAX
    assert places.enter_now(B)


def test_there_are_so_many_places_in_all() -> None:
    places = Places()
    names = _names(LARGE_ANSWERS_MAX + 1)
    assert [places.enter_now(name) for name in names] == [True] * LARGE_ANSWERS_MAX + [False]
    places.leave(names[0])
    assert places.enter_now(names[-1])


async def test_a_place_goes_to_the_first_who_may_have_it() -> None:
    places = Places()
    rest = LARGE_ANSWERS_MAX - LARGE_ANSWERS_OF_NAMESPACE_MAX
    for name in (*[A] * LARGE_ANSWERS_OF_NAMESPACE_MAX, *[B] * rest):
        assert places.enter_now(name)
    again, other = await _waiting(places, A), await _waiting(places, D)
    places.leave(B)
    await other
    assert not again.done(), "its namespace has all that it may have"
    places.leave(A)
    await again
    assert sum(places.enter_now(E) for _ in range(LARGE_ANSWERS_MAX)) == 0


async def test_too_many_of_a_namespace_are_told_to_come_back() -> None:
    places = Places()
    for _ in range(LARGE_ANSWERS_OF_NAMESPACE_MAX):
        places.enter_now(A)
    waiting = [await _waiting(places, A) for _ in range(LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX)]
    with pytest.raises(Problem) as told:
        await places.enter(A)
    assert told.value.type is ProblemType.RATE_LIMITED
    assert told.value.retry_after_s
    for task in waiting:
        task.cancel()


async def test_too_many_in_all_are_told_to_come_back() -> None:
    places = Places()
    for name in _names(LARGE_ANSWERS_MAX):
        places.enter_now(name)
    waiting = [await _waiting(places, Caller(f"w{n}")) for n in range(LARGE_ANSWERS_WAITING_MAX)]
    with pytest.raises(Problem) as told:
        await places.enter(Z)
    assert told.value.type is ProblemType.UNAVAILABLE
    assert told.value.retry_after_s
    for task in waiting:
        task.cancel()


async def test_who_waits_too_long_is_told_and_leaves_the_queue() -> None:
    places = Places(replace(LARGE, wait_s=0.0))
    for _ in range(LARGE_ANSWERS_OF_NAMESPACE_MAX):
        places.enter_now(A)
    for _ in range(2 * LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX):
        with pytest.raises(Problem):
            await places.enter(A)
    places.leave(A)
    assert places.enter_now(A)


async def test_who_goes_away_with_a_place_in_hand_gives_it_back() -> None:
    places = Places()
    for _ in range(LARGE_ANSWERS_OF_NAMESPACE_MAX):
        places.enter_now(A)
    waiting = await _waiting(places, A)
    places.leave(A)  # handed over, and not taken up yet
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert places.enter_now(A)
