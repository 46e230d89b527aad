"""Sessions of the console in v3: sign in with an API key, see who is signed in, sign out."""

import secrets
from typing import Annotated, Final, Literal, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from meterline.access import (
    ANONYMOUS,
    SECRET_BYTES,
    ApiKey,
    Scope,
    Session,
    SessionToken,
)
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.sessions import BY_COOKIE, COOKIE, HEADER, ByCookie, Sessions
from meterline.http.shapes import Closed, InstantShown, NoNul, NoParameters, Ulid
from meterline.limits import AUTHORIZATION_CHARS_MAX
from meterline.ports import Clock
from meterline.problem import Problem, ProblemType, conflict
from meterline.window import rfc3339

_HEADERS: Final = {HEADER: "Always `1`. Only a script of the console's own origin can send it."}
_NO_STORE: Final = {"Cache-Control": "no-store"}


class SessionBody(Closed):
    """The key to sign in with."""

    key: Annotated[str, Field(min_length=1, max_length=AUTHORIZATION_CHARS_MAX), NoNul]


class SessionKeyShown(TypedDict):
    """The key that signed in."""

    id: Ulid
    name: str


class SessionShown(TypedDict):
    """Who is signed in, and what they may do."""

    access_mode: Annotated[
        Literal["none", "keys"],
        Field(description="`none`: no key is needed, and everybody may do everything."),
    ]
    signed_in: bool
    scopes: Annotated[list[Scope], Field(description="What may be done; empty: nothing.")]
    namespace: NotRequired[str]
    key: NotRequired[SessionKeyShown]
    expires_at: NotRequired[
        Annotated[InstantShown, Field(description="When the session ends unless it is renewed.")]
    ]
    renewable_until: NotRequired[
        Annotated[InstantShown, Field(description="No renewal goes beyond this.")]
    ]
    console: NotRequired[
        Annotated[
            str,
            Field(description="Build of the console that the server has; it changes on upgrade."),
        ]
    ]


_EXAMPLE: Final = {
    "access_mode": "keys",
    "signed_in": True,
    "scopes": ["meters:read", "usage:read"],
    "namespace": "default",
    "key": {"id": "01M7ZMF4YA7D2SQ292V0W9JPT8", "name": "Billing team"},
    "expires_at": "2026-01-31T18:57:37.218Z",
    "renewable_until": "2026-02-01T06:27:37.218Z",
    "console": "910c6c9314ed83ebf17128d26c99798e",
}


class V3Sessions(Handlers, tag="Sessions"):
    """Handlers of sessions; `sessions` is None in mode `none`, where nobody signs in. `console` is
    the build that is served.
    """

    def __init__(self, sessions: Sessions | None, clock: Clock, console: str | None) -> None:
        self._sessions = sessions
        self._clock = clock
        self._console = console

    @Operation(
        id="get-session",
        route="GET /session",
        summary="Get the console's session",
        description="Who is signed in by cookie, and what they may do. Open to all: without a "
        "session, `signed_in` is false. It says nothing about an `Authorization` header.",
        scope=None,
        answer=Answer(200, "The session, or that there is none.", SessionShown, example=_EXAMPLE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """200 always, but while keys or sessions cannot be read: then 503."""
        found = call.request.get(BY_COOKIE)
        if self._sessions is None:
            shown: SessionShown = {
                "access_mode": "none",
                "signed_in": True,
                "scopes": sorted(ANONYMOUS.scopes),
                "namespace": ANONYMOUS.namespace,
            }
            return self._shown(shown)
        if found is None or found.session is None or found.key is None:
            _check_available(found)
            return self._shown({"access_mode": "keys", "signed_in": False, "scopes": []})
        return self._shown(_members(found.session, found.key))

    @Operation(
        id="create-session",
        route="POST /session",
        summary="Sign in to the console",
        description="Sets a cookie for the console's page, which lasts 30 minutes and can be "
        "renewed for 12 hours. It holds no key. Programs send an API key instead.",
        scope=None,
        headers=_HEADERS,
        body=json_body(SessionBody, {"key": "mtl_01M7ZMF4YA7D2SQ292V0W9JPT8_" + "A" * 43}),
        answer=Answer(201, "Signed in.", SessionShown, example=_EXAMPLE),
        problems=(
            ProblemType.UNAUTHENTICATED,
            ProblemType.FORBIDDEN,
            ProblemType.CONFLICT,
            ProblemType.RATE_LIMITED,
        ),
    )
    async def create(self, call: Call[NoParameters, SessionBody]) -> web.Response:
        """201 with the cookie; a session that the page had before ends."""
        if self._sessions is None:
            raise conflict("Nobody signs in here: this server asks for no key (access_mode none).")
        made = await self._sessions.sign_in(
            call.request, call.body.key.strip(), secrets.token_bytes(SECRET_BYTES)
        )
        token, session, key = made
        before = call.request.get(BY_COOKIE)
        if before is not None and before.token is not None:
            await self._sessions.end(before.token)
        return self._cookied(token, session, key, 201)

    @Operation(
        id="renew-session",
        route="POST /session/renew",
        summary="Renew the console's session",
        description="It lasts 30 minutes from now on, but 12 hours in all at most.",
        scope=None,
        headers=_HEADERS,
        answer=Answer(200, "The session.", SessionShown, example=_EXAMPLE),
        problems=(ProblemType.UNAUTHENTICATED, ProblemType.FORBIDDEN, ProblemType.CONFLICT),
    )
    async def renew(self, call: Call[NoParameters, None]) -> web.Response:
        """The session with its cookie anew; 401 where it has ended."""
        if self._sessions is None:
            raise conflict("There are no sessions here: this server asks for no key.")
        found = call.request.get(BY_COOKIE) or ByCookie()
        found.principal()
        token, session, key = found.token, found.session, found.key
        assert token is not None, "it has a principal"
        assert session is not None, "as above"
        assert key is not None, "as above"
        return self._cookied(token, await self._sessions.renew(session), key, 200)

    @Operation(
        id="delete-session",
        route="DELETE /session",
        summary="Sign out of the console",
        description="The session ends in every process within 2 seconds.",
        scope=None,
        headers=_HEADERS,
        answer=Answer(204, "Signed out, also where nobody was signed in."),
        problems=(ProblemType.FORBIDDEN,),
    )
    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204, and the cookie is gone."""
        found = call.request.get(BY_COOKIE)
        if self._sessions is not None and found is not None and found.token is not None:
            await self._sessions.end(found.token)
        response = web.Response(status=204)
        _set_cookie(response, "", 0)
        return response

    def _cookied(
        self, token: SessionToken, session: Session, key: ApiKey, status: int
    ) -> web.Response:
        response = self._shown(_members(session, key), status)
        left_ms = session.expires_at_ms - self._clock.now_ms()
        _set_cookie(response, token.text, max(1, left_ms // 1_000))
        return response

    def _shown(self, shown: SessionShown, status: int = 200) -> web.Response:
        if self._console is not None:
            shown["console"] = self._console
        return json_response(shown, status, _NO_STORE)


def _check_available(found: ByCookie | None) -> None:
    """Raises `Problem` (unavailable) where it is not known whether somebody is signed in."""
    problem = found.problem if found is not None else None
    if isinstance(problem, Problem) and problem.type is ProblemType.UNAVAILABLE:
        raise problem


def _members(session: Session, key: ApiKey) -> SessionShown:
    return {
        "access_mode": "keys",
        "signed_in": True,
        "scopes": sorted(key.scopes),
        "namespace": key.namespace,
        "key": {"id": key.id, "name": key.name},
        "expires_at": rfc3339(session.expires_at_ms),
        "renewable_until": rfc3339(session.renewable_until_ms),
    }


def _set_cookie(response: web.Response, text: str, age_s: int) -> None:
    """By its name a browser takes it from a secure origin only, for this host and every path."""
    response.set_cookie(
        COOKIE, text, max_age=age_s, path="/", secure=True, httponly=True, samesite="Strict"
    )
