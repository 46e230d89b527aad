"""Erasures in API v3: a subject's name and payloads are removed, its usage stays."""

from typing import Annotated, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import cursor_page, id_after, page_answer, page_shape
from control.shapes.subject import Key
from meterline.access import Scope
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Closed, CursorPage, InstantShown, NoParameters, Parameters, Ulid
from meterline.problem import ProblemType, not_found
from meterline.usage import Erasure, ErasureState
from meterline.window import rfc3339


class ErasureBody(Closed):
    """Whose name and payloads are to be removed."""

    subject: Annotated[Key, Field(description="`subject` of its events.")]


class ErasureListParameters(Parameters):
    """Which page."""

    page: CursorPage = CursorPage()


class ErasureShown(TypedDict):
    """An erasure."""

    id: Ulid
    state: Annotated[
        ErasureState,
        Field(
            description="`asked`: waits until all that was recorded before is counted. `copying`: "
            "its usage is being copied. `switched`: its usage is shown under the pseudonym. "
            "`settled`: only the log still has records of it. `done`: nothing has."
        ),
    ]
    subject: NotRequired[
        Annotated[Maybe[str], Field(description="The subject, until the erasure is done.")]
    ]
    pseudonym: Annotated[str, Field(description="Subject that its usage is kept under.")]
    asked_at: InstantShown
    log_holds_until: NotRequired[
        Annotated[
            Maybe[InstantShown],
            Field(description="About when the log has dropped its records (`log_retention_days`)."),
        ]
    ]
    done_at: NotRequired[Maybe[InstantShown]]


_PAGE: Final = page_shape("ErasurePageShown", ErasureShown, "A page of erasures, the newest first.")
_EXAMPLE: Final[ErasureShown] = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "state": ErasureState.SETTLED,
    "subject": "customer-1",
    "pseudonym": "erased-01M7ZMF4YA7D2SQ292V0W9JPT8",
    "asked_at": "2026-01-31T10:00:00Z",
    "log_holds_until": "2026-02-07T10:05:00Z",
}


class V3Erasures(OfStores, tag="Subjects"):
    """The handlers of erasures."""

    @Operation(
        id="erase-subject",
        route="POST /erasures",
        summary="Erase a subject",
        description="Remove the name and the payloads of a subject from all that was recorded "
        "before. Its usage is kept under a pseudonym, so totals do not change. Later events count "
        "under its name again. It cannot be undone.",
        scope=Scope.SUBJECTS_ERASE,
        body=json_body(ErasureBody, {"subject": "customer-1"}),
        answer=Answer(202, "The erasure.", ErasureShown, example=_EXAMPLE),
        problems=(ProblemType.CONFLICT,),
    )
    async def ask(self, call: Call[NoParameters, ErasureBody]) -> web.Response:
        """202 with the erasure; 409 where one has begun, or a report names the subject."""
        stores = self._stores
        erasure = await stores.erasures.ask(
            call.namespace, call.body.subject, stores.now_ms, author=call.author
        )
        return json_response(shown(erasure), status=202)

    @Operation(
        id="list-erasures",
        route="GET /erasures",
        summary="List erasures",
        scope=Scope.SUBJECTS_ERASE,
        parameters=ErasureListParameters,
        answer=page_answer("A page of erasures.", _PAGE, _EXAMPLE, _EXAMPLE["id"]),
    )
    async def list(self, call: Call[ErasureListParameters, None]) -> web.Response:
        """One page, the newest first."""
        page = call.parameters.page
        found = await self._stores.erasures.erasures(call.namespace, page.size + 1, id_after(page))
        return json_response(cursor_page(found, page, shown, lambda it: it.id))

    @Operation(
        id="get-erasure",
        route="GET /erasures/{erasureId}",
        summary="Get an erasure",
        scope=Scope.SUBJECTS_ERASE,
        answer=Answer(200, "The erasure.", ErasureShown, example=_EXAMPLE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The erasure."""
        name = call.names["erasureId"]
        erasure = await self._stores.erasures.erasure(call.namespace, name)
        if erasure is None:
            raise not_found("erasure", name)
        return json_response(shown(erasure))


def shown(erasure: Erasure) -> ErasureShown:
    """The erasure as v3 shows it."""
    until_ms, done_ms = erasure.log_until_ms, erasure.done_at_ms
    shown: ErasureShown = {
        "id": erasure.id,
        "state": erasure.state,
        "subject": erasure.subject,
        "pseudonym": erasure.pseudonym,
        "asked_at": rfc3339(erasure.asked_at_ms),
        "log_holds_until": None if until_ms is None else rfc3339(until_ms),
        "done_at": None if done_ms is None else rfc3339(done_ms),
    }
    return present(shown)
