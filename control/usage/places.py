"""Places: how many are answered at once, and who waits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from meterline import limits
from meterline.access import Principal
from meterline.problem import Problem, ProblemType

RETRY_S: Final = 10


class Caller(NamedTuple):
    """Whose request it is. Without keys everybody is the same one, of no key."""

    namespace: str
    key: str | None = None


def caller_of(principal: Principal) -> Caller:
    """The caller that a principal counts as."""
    return Caller(principal.namespace, principal.key_id)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many have a place at once, in all, of a namespace and of a key; how many wait; how long.
    `what` they are, and how to ask for less, are said to who gets none.
    """

    what: str
    less: str
    at_once: int
    of_namespace: int
    of_key: int
    waiting: int
    waiting_of_namespace: int
    wait_s: float


_LESS: Final = "ask for less in each: fewer days, a larger window, fewer groups"
LARGE: Final = Bounds(
    "large answers about usage",
    f"{_LESS}; or for CSV in parts, one span after another",
    limits.LARGE_ANSWERS_MAX,
    limits.LARGE_ANSWERS_OF_NAMESPACE_MAX,
    limits.LARGE_ANSWERS_OF_NAMESPACE_MAX,
    limits.LARGE_ANSWERS_WAITING_MAX,
    limits.LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX,
    limits.LARGE_ANSWER_WAIT_S,
)


class Admission(Enum):
    """What becomes of a request for a place."""

    NOW = "now"
    WAITS = "waits"
    OF_KEY = "of_key"  # refused: its key has, or waits for, all that it may
    OF_NAMESPACE = "of_namespace"  # refused: its namespace does
    OF_OTHERS = "of_others"  # refused: all together do


def fits(bounds: Bounds, held: Iterable[Caller], caller: Caller) -> Admission:
    """Whether one more may have a place beside those who have one (pure)."""
    everybody = list(held)
    of_namespace = [one for one in everybody if one.namespace == caller.namespace]
    if caller.key is not None and of_namespace.count(caller) >= bounds.of_key:
        return Admission.OF_KEY
    if len(of_namespace) >= bounds.of_namespace:
        return Admission.OF_NAMESPACE
    return Admission.OF_OTHERS if len(everybody) >= bounds.at_once else Admission.NOW


def admitted(
    bounds: Bounds, held: Iterable[Caller], waiting: Iterable[Caller], caller: Caller
) -> Admission:
    """What becomes of one more (pure). Who waits is handed a place as soon as it may have one, so
    nobody is passed who could go.
    """
    found = fits(bounds, held, caller)
    if found is Admission.NOW:
        return found
    queue = list(waiting)
    of_namespace = sum(one.namespace == caller.namespace for one in queue)
    full = len(queue) >= bounds.waiting or of_namespace >= bounds.waiting_of_namespace
    return found if full else Admission.WAITS


class Places:
    """Given out in the order of asking, but never more to a namespace or key than it may have."""

    def __init__(self, bounds: Bounds = LARGE) -> None:
        self._bounds = bounds
        self._held: Counter[Caller] = Counter()
        self._waiting: list[tuple[Caller, asyncio.Future[None]]] = []

    def enter_now(self, caller: Caller) -> bool:
        """Take a place if there is one. Whoever waits was handed his already, if he could be."""
        free = fits(self._bounds, self._held.elements(), caller) is Admission.NOW
        self._held[caller] += free
        return free

    async def enter(self, caller: Caller) -> None:
        """Take a place, or wait for it. Raises `Problem` where too many wait, or for too long."""
        queue = [one for one, _ in self._waiting]
        found = admitted(self._bounds, self._held.elements(), queue, caller)
        if found is Admission.NOW:
            self._held[caller] += 1
            return
        if found is not Admission.WAITS:
            raise busy(self._bounds, found)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, turn))
        try:
            async with asyncio.timeout(self._bounds.wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(caller)  # it was handed over at the same moment
            else:
                self._waiting.remove((caller, turn))
            if isinstance(error, TimeoutError):
                still = fits(self._bounds, self._held.elements(), caller)
                raise busy(self._bounds, still) from None
            raise

    def leave(self, caller: Caller) -> None:
        """Give a place back; it goes to the first who waits and may have it."""
        self._held[caller] -= 1
        self._held += Counter()  # callers that hold nothing are forgotten
        for number, (other, turn) in enumerate(self._waiting):
            if not turn.done() and self.enter_now(other):
                del self._waiting[number]
                turn.set_result(None)
                return

    @asynccontextmanager
    async def place(self, caller: Caller) -> AsyncIterator["Place"]:
        """A place for the length of the block, unless it is given back before. Raises as `enter`
        does.
        """
        await self.enter(caller)
        place = Place(self, caller)
        try:
            yield place
        finally:
            place.leave()


@dataclass(slots=True)
class Place:
    """A place that somebody has."""

    places: Places
    caller: Caller
    left: bool = False

    def leave(self) -> None:
        """Give it back; once is enough."""
        if not self.left:
            self.left = True
            self.places.leave(self.caller)


def busy(bounds: Bounds, why: Admission) -> Problem:
    """Who has none is told why, and how to need less."""
    if why is Admission.OF_KEY:
        message = f"{bounds.of_key} {bounds.what} of this key are being made; take them first, or"
        return Problem(ProblemType.RATE_LIMITED, f"{message} {bounds.less}.", retry_after_s=RETRY_S)
    if why is Admission.OF_NAMESPACE:
        message = (
            f"{bounds.of_namespace} {bounds.what} are being made for this namespace; take them"
            f" first, or {bounds.less}."
        )
        return Problem(ProblemType.RATE_LIMITED, message, retry_after_s=RETRY_S)
    message = (
        f"{bounds.what.capitalize()} are being made for others. Try again after the seconds in"
        f" Retry-After, or {bounds.less}."
    )
    return Problem(ProblemType.UNAVAILABLE, message, retry_after_s=RETRY_S)
