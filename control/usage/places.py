"""Places of large answers: how many are sent at once, and who waits."""

import asyncio
from collections import Counter

from meterline.limits import (
    LARGE_ANSWER_WAIT_S,
    LARGE_ANSWERS_MAX,
    LARGE_ANSWERS_OF_NAMESPACE_MAX,
    LARGE_ANSWERS_WAITING_MAX,
    LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX,
)
from meterline.problem import Problem, ProblemType

_RETRY_S = 10


class Places:
    """Given out in the order of asking, but never more to a namespace than it may have."""

    def __init__(self, wait_s: float = LARGE_ANSWER_WAIT_S) -> None:
        self._wait_s = wait_s
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def enter_now(self, namespace: str) -> bool:
        """Take a place if there is one. Whoever waits was handed his already, if he could be."""
        free = (
            self._held.total() < LARGE_ANSWERS_MAX
            and self._held[namespace] < LARGE_ANSWERS_OF_NAMESPACE_MAX
        )
        self._held[namespace] += free
        return free

    async def enter(self, namespace: str) -> None:
        """Take a place, or wait for it. Raises `Problem` where too many wait, or for too long."""
        if self.enter_now(namespace):
            return
        self._within_bounds(namespace)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((namespace, turn))
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(namespace)  # it was handed over at the same moment
            else:
                self._waiting.remove((namespace, turn))
            if isinstance(error, TimeoutError):
                raise self._busy(namespace) from None
            raise

    def leave(self, namespace: str) -> None:
        """Give a place back; it goes to the first who waits and may have it."""
        self._held[namespace] -= 1
        self._held += Counter()  # names that hold nothing are forgotten
        for number, (name, turn) in enumerate(self._waiting):
            if not turn.done() and self.enter_now(name):
                del self._waiting[number]
                turn.set_result(None)
                return

    def _within_bounds(self, namespace: str) -> None:
        of_namespace = sum(name == namespace for name, _ in self._waiting)
        if (
            len(self._waiting) >= LARGE_ANSWERS_WAITING_MAX
            or of_namespace >= LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX
        ):
            raise self._busy(namespace)

    def _busy(self, namespace: str) -> Problem:
        if self._held[namespace] >= LARGE_ANSWERS_OF_NAMESPACE_MAX:
            message = (
                f"{LARGE_ANSWERS_OF_NAMESPACE_MAX} large answers about usage are being sent to "
                "this namespace; take them first, or ask for less at once."
            )
            return Problem(ProblemType.RATE_LIMITED, message, retry_after_s=_RETRY_S)
        message = "Large answers about usage are being sent to others; try again, or ask for less."
        return Problem(ProblemType.UNAVAILABLE, message, retry_after_s=_RETRY_S)
