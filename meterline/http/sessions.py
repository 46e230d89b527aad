"""Requests of the console's page: by the cookie of a session, and by no page of another origin.

`SameSite=Strict` alone would let every page in that another program of this machine serves: sites
have no ports. So a change by cookie also needs a header that only scripts of our own origin can
set, and the browser's word that the request is from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from meterline.access import (
    ApiKey,
    Policy,
    Principal,
    Scope,
    Session,
    SessionStore,
    SessionToken,
    Token,
    new_session,
    parse_session_token,
    parse_token,
    session_token,
)
from meterline.http.answers import Handler
from meterline.http.origins import HostRule, is_loopback
from meterline.http.unauthenticated import UnauthenticatedCallers
from meterline.limits import (
    SESSION_REMEMBERED_MS,
    SESSIONS_REMEMBERED_MAX,
    SIGN_IN_REFUSALS_MAX,
    SIGN_IN_WINDOW_S,
)
from meterline.ports import Clock, Unavailable
from meterline.problem import Problem, ProblemType

COOKIE: Final = "__Host-meterline-session"
HEADER: Final = "Meterline-Console"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_API: Final = "/api/"
_POLICY: Final = Policy("failed_sign_ins", SIGN_IN_REFUSALS_MAX, SIGN_IN_WINDOW_S)
_ENDED: Final = "The session has ended. Sign in again."
_WRONG_KEY: Final = "This is no API key: it begins with mtl_ and has 74 characters."


class Keys(Protocol):
    """The keys at hand."""

    def key_of(self, token: Token | SessionToken, now_ms: int) -> ApiKey:
        """The key that a token was made with. Raises `Problem`."""
        ...


@dataclass(frozen=True, slots=True)
class ByCookie:
    """A request with a cookie: of which session and key, or why it is of none."""

    token: SessionToken | None = None
    session: Session | None = None
    key: ApiKey | None = None
    problem: Problem | None = None

    def principal(self) -> Principal:
        """Who asks. Raises `Problem` (unauthenticated, unavailable)."""
        if self.key is None:
            raise self.problem or Problem(ProblemType.UNAUTHENTICATED, _ENDED)
        return self.key.principal


BY_COOKIE: Final = web.RequestKey("by_cookie", ByCookie)


class Sessions:
    """The sessions as one process knows them. What the store said is believed for a moment; while
    the store is away, until the session ends by time: an outage signs nobody out.
    """

    def __init__(self, store: SessionStore, keys: Keys, clock: Clock, rule: HostRule) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock
        self._rule = rule
        self._wrong = UnauthenticatedCallers(_POLICY)
        self._known: dict[bytes, tuple[Session, int]] = {}  # with when the store was asked

    async def sign_in(
        self, request: web.Request, key_text: str, random: bytes
    ) -> tuple[SessionToken, Session, ApiKey]:
        """A new session. Raises `Problem`: forbidden, unauthenticated, rate-limited."""
        now_ms = self._clock.now_ms()
        self.check_origin(request)
        if (why := _dropped_cookie(request.headers.getall("Origin", ()))) is not None:
            raise Problem(ProblemType.FORBIDDEN, why)
        try:
            shown = parse_token(key_text)
            if shown is None:
                raise Problem(ProblemType.UNAUTHENTICATED, _WRONG_KEY)
            key = self._keys.key_of(shown, now_ms)
        except Problem as problem:
            if problem.type is ProblemType.UNAUTHENTICATED:
                self._wrong.count(request.remote, now_ms)
            raise
        token = session_token(key, random)
        session = new_session(token, now_ms)
        await self._store.start_session(session)
        return token, session, key

    async def renew(self, session: Session) -> Session:
        """The session with a later end."""
        renewed = session.renewed(self._clock.now_ms())
        await self._store.renew_session(session.token_hash, renewed.expires_at_ms)
        self._known.pop(session.token_hash, None)
        return renewed

    async def end(self, token: SessionToken) -> None:
        """Sign out."""
        await self._store.end_session(token.digest)
        self._known.pop(token.digest, None)

    async def of(self, text: str) -> ByCookie:
        """Whose cookie this is."""
        now_ms = self._clock.now_ms()
        token = parse_session_token(text)
        if token is None:
            return ByCookie()
        try:
            key = self._keys.key_of(token, now_ms)
            session = await self._session(token.digest, now_ms)
        except Problem as problem:
            return ByCookie(token, problem=problem)
        if session is None or session.is_over(now_ms):
            return ByCookie(token)
        return ByCookie(token, session, key)

    async def scopes_of(self, request: web.Request) -> frozenset[Scope]:
        """What who opens the console may do; nothing where that is not known."""
        text = request.cookies.get(COOKIE)
        if text is None:
            return frozenset()
        try:
            key = (await self.of(text)).key
        except Unavailable:
            return frozenset()  # the page asks, and says what is wrong
        return frozenset() if key is None else key.scopes

    async def _session(self, token_hash: bytes, now_ms: int) -> Session | None:
        known, asked_at_ms = self._known.get(token_hash, (None, 0))
        if known is not None and 0 <= now_ms - asked_at_ms < SESSION_REMEMBERED_MS:
            return known
        try:
            found = await self._store.session(token_hash)
        except Unavailable:
            if known is None:
                raise
            return known
        self._known.pop(token_hash, None)
        if found is not None:
            if len(self._known) >= SESSIONS_REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
            self._known[token_hash] = (found, now_ms)
        return found

    def check_origin(self, request: web.Request) -> None:
        """Raises `Problem` (forbidden) where a change may not come from the console's own page."""
        headers = request.headers
        if HEADER not in headers:
            detail = f"Send the header `{HEADER}: 1` with a change by cookie, or send an API key."
            raise Problem(ProblemType.FORBIDDEN, detail)
        sites = headers.getall("Sec-Fetch-Site", ())
        if sites:  # the browser's own word, which no page can change, also behind a proxy
            why = None if set(sites) == {"same-origin"} else _OTHER_ORIGIN
        else:
            hosts, origins = headers.getall("Host", ()), headers.getall("Origin", ())
            why = self._rule.refusal(request.method, hosts, origins)
        if why is not None:
            raise Problem(ProblemType.FORBIDDEN, why)


_OTHER_ORIGIN: Final = (
    "A page of another origin may not change anything here by cookie. Use an API key."
)


def _dropped_cookie(origins: Sequence[str]) -> str | None:
    """Why a browser would not keep the cookie of a session, which is for secure origins."""
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            return (
                "A browser keeps the cookie of a session only over HTTPS or on localhost. Put a "
                "proxy with TLS in front, or open the console by an SSH tunnel to localhost."
            )
    return None


def session_middleware(sessions: Sessions) -> Middleware:
    """Finds the session of a request by cookie, for the gate. An `Authorization` header wins."""

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        if "Cookie" not in headers or "Authorization" in headers:
            return await handler(request)
        text = request.cookies.get(COOKIE)
        if text is None or not request.path.startswith(_API):
            return await handler(request)
        if request.method not in _READING:
            sessions.check_origin(request)
        elif not set(headers.getall("Sec-Fetch-Site", ())) <= {"same-origin", "none"}:
            return await handler(request)  # a link on a page of somebody else: as without a cookie
        request[BY_COOKIE] = await sessions.of(text)
        return await handler(request)

    return look
