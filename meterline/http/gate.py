"""The gate: who asks, whether they may, and whether it is too much (contract sections 5 and 8)."""

from collections.abc import Callable
from typing import Final

from aiohttp import web

from meterline.access import ANONYMOUS, Limited, Principal, Scope, Throttle
from meterline.http.answers import LIMIT_HEADERS
from meterline.http.bodies import HOLDING
from meterline.http.sessions import BY_COOKIE, ByCookie
from meterline.http.unauthenticated import UnauthenticatedCallers
from meterline.ports import Clock
from meterline.problem import Problem, ProblemType

PRINCIPAL: Final = web.RequestKey("principal", Principal)


class Gate:
    """What stands before every operation.

    `identify` makes a principal of the `Authorization` header, or raises `Problem`; without it
    everybody is let in as `ANONYMOUS` and the header is ignored (mode none). A request that came
    with the cookie of a session is its key's (`meterline.http.sessions`).
    """

    def __init__(
        self,
        clock: Clock,
        identify: Callable[[str | None, int], Principal] | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._clock = clock
        self._identify = identify
        self._throttle = throttle
        self._unauthenticated = UnauthenticatedCallers()

    def enter(self, request: web.Request, scope: Scope | None) -> Principal:
        """Who asks. Raises `Problem`: unauthenticated, forbidden, rate-limited."""
        if scope is None:
            return ANONYMOUS
        principal = ANONYMOUS
        now_ms = self._clock.now_ms()
        if self._identify is not None:
            principal = self._known(self._identify, request, now_ms)
        request[PRINCIPAL] = principal
        if principal.key_id is not None and (holding := request.get(HOLDING)) is not None:
            holding.caller = principal.key_id
        self._take(request, principal, Limited.REQUESTS, 1, now_ms)
        if scope not in principal.scopes:
            detail = f"The key lacks the scope {scope.value}, which this operation asks for."
            raise Problem(ProblemType.FORBIDDEN, detail)
        return principal

    def _known(
        self, identify: Callable[[str | None, int], Principal], request: web.Request, now_ms: int
    ) -> Principal:
        try:
            by_cookie: ByCookie | None = request.get(BY_COOKIE)
            if by_cookie is not None:
                return by_cookie.principal()
            return identify(request.headers.get("Authorization"), now_ms)
        except Problem as problem:
            if problem.type is ProblemType.UNAUTHENTICATED:
                self._unauthenticated.count(request.remote, now_ms)
            raise

    def take_events(self, request: web.Request, principal: Principal, count: int) -> None:
        """Count events against the plan. Raises `Problem` (rate-limited): none of them went in."""
        self._take(request, principal, Limited.EVENTS, count, self._clock.now_ms())

    def _take(
        self, request: web.Request, principal: Principal, what: Limited, cost: int, now_ms: int
    ) -> None:
        if self._throttle is None:
            return
        decision = self._throttle.take(principal, what, cost, now_ms)
        if decision is None:
            return
        request[LIMIT_HEADERS] = dict(decision.headers)
        if decision.problem is not None:
            raise decision.problem
