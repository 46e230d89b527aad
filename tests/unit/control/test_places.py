"""Places of large answers: fair, bounded, never lost."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.usage.places import (
    LARGE,
    Admission,
    Bounds,
    Caller,
    Places,
    admitted,
    busy,
    fits,
)
from meterline.limits import (
    LARGE_ANSWERS_MAX,
    LARGE_ANSWERS_OF_NAMESPACE_MAX,
    LARGE_ANSWERS_WAITING_MAX,
    LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX,
)
from meterline.problem import Problem, ProblemType
from tests.simulation.virtual_loop import VirtualLoop

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


SMALL = Bounds("queries", "ask for less", 4, 3, 2, 5, 3, 60)
callers = st.builds(Caller, st.sampled_from("ab"), st.sampled_from([None, "k1", "k2"]))


@given(st.lists(callers, max_size=6), st.lists(callers, max_size=6), callers)
def test_one_more_never_leads_beyond_a_bound(
    held: list[Caller], waiting: list[Caller], caller: Caller
) -> None:
    found = admitted(SMALL, held, waiting, caller)
    of_namespace = [one for one in held if one.namespace == caller.namespace]
    beyond = (
        len(held) >= SMALL.at_once
        or len(of_namespace) >= SMALL.of_namespace
        or (caller.key is not None and of_namespace.count(caller) >= SMALL.of_key)
    )
    assert (found is Admission.NOW) == (not beyond)
    queue = sum(one.namespace == caller.namespace for one in waiting)
    full = len(waiting) >= SMALL.waiting or queue >= SMALL.waiting_of_namespace
    assert (found is Admission.WAITS) == (beyond and not full)
    if beyond and full:
        assert found is fits(SMALL, held, caller)
        assert ((busy(SMALL, found).type) is ProblemType.UNAVAILABLE) == (
            found is Admission.OF_OTHERS
        )


@given(st.lists(st.tuples(callers, st.integers(0, 30)), max_size=25))
def test_whatever_comes_and_goes_all_get_a_place_or_are_told(
    asked: list[tuple[Caller, int]],
) -> None:
    loop, places = VirtualLoop(), Places(SMALL)
    working: list[Caller] = []

    async def one(caller: Caller, works_s: int) -> None:
        async with places.place(caller):
            working.append(caller)
            others = list(working)
            others.remove(caller)
            assert fits(SMALL, others, caller) is Admission.NOW
            await asyncio.sleep(works_s)
            working.remove(caller)

    async def all_of_them() -> list[BaseException | None]:
        return await asyncio.gather(*(one(*each) for each in asked), return_exceptions=True)

    for end in loop.run_until_complete(all_of_them()):
        if end is not None:
            assert isinstance(end, Problem)
            assert "ask for less" in end.detail
    assert all(places.enter_now(Caller("a", key)) for key in ("k1", "k2")), "all were given back"
    assert all(isinstance(error, Problem) for error in loop.end())


def test_who_waits_is_told_when_the_time_is_over() -> None:
    loop, places = VirtualLoop(), Places(SMALL)

    async def wait() -> float:
        for _ in range(SMALL.of_namespace):
            assert places.enter_now(A)
        with pytest.raises(Problem, match="ask for less"):
            await places.enter(A)
        return loop.time()

    assert loop.run_until_complete(wait()) == SMALL.wait_s
    assert loop.end() == []
