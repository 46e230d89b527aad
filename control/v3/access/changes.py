"""Who changed which meter, report, subject or key, and when, in API v3."""

from typing import Annotated, Final, NotRequired

from aiohttp import web
from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import cursor_page, id_after, page_answer, page_shape
from meterline.access import AccessStore, Action, Change, Kind, Scope, members_of
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import CursorPage, InstantShown, NoNul, Parameters, Ulid
from meterline.limits import ATTRIBUTE_CHARS_MAX
from meterline.window import rfc3339


class ChangeFilter(Parameters):
    """Which changes."""

    kind: Annotated[Kind | None, Field(description="Of what kind of thing.")] = None
    resource_id: Annotated[
        Annotated[str, Field(max_length=ATTRIBUTE_CHARS_MAX), NoNul] | None,
        Field(description="Of the thing with this id."),
    ] = None


class ChangesParameters(Parameters):
    """Which page, of which changes."""

    page: CursorPage = CursorPage()
    filter: ChangeFilter = ChangeFilter()


class ChangedMemberShown(TypedDict):
    """A member of what was changed. Null: it was or is absent."""

    member: str
    before: JsonValue
    after: JsonValue


class ChangeShown(TypedDict):
    """One change, never with a secret."""

    id: Ulid
    at: InstantShown
    author: Annotated[
        str,
        Field(description="`key:<id>`, `anonymous`, or `settings` and other parts of the product."),
    ]
    action: Action
    kind: Kind
    resource_id: Annotated[str, Field(description="Id of what was changed.")]
    name: Annotated[str, Field(description="Its key, slug or name after the change.")]
    detail: NotRequired[Annotated[Maybe[str], Field(description="What of it, in a few words.")]]
    members: NotRequired[
        Annotated[
            Maybe[list[ChangedMemberShown]],
            Field(
                description="What differs, before and after: of updates of meters, reports and API "
                "keys. No secret is among it. A value of over 4,096 bytes is told by its hash."
            ),
        ]
    ]


_PAGE: Final = page_shape("ChangePageShown", ChangeShown, "A page of changes, the newest first.")
_EXAMPLE: Final[ChangeShown] = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "at": "2026-01-31T10:00:00Z",
    "author": "key:01M7ZM1111111111111111111A",
    "action": Action.UPDATE,
    "kind": Kind.METER,
    "resource_id": "01M7ZM2222222222222222222B",
    "name": "tokens_total",
    "detail": "name",
    "members": [{"member": "name", "before": "Tokens", "after": "Tokens, all models"}],
}


class V3Changes(Handlers, tag="Changes"):
    """The handler of the list."""

    def __init__(self, access: AccessStore) -> None:
        self._access = access

    @Operation(
        id="list-changes",
        route="GET /changes",
        summary="List who changed what, and when",
        description="Changes of meters, reports, subjects and API keys, the newest first.",
        scope=Scope.CHANGES_READ,
        parameters=ChangesParameters,
        answer=page_answer("A page of changes.", _PAGE, _EXAMPLE, _EXAMPLE["id"]),
    )
    async def list(self, call: Call[ChangesParameters, None]) -> web.Response:
        """One page, the newest first."""
        page, only = call.parameters.page, call.parameters.filter
        changes = await self._access.changes(
            call.namespace,
            page.size + 1,
            kind=only.kind,
            subject_id=only.resource_id,
            after=id_after(page),
        )
        return json_response(cursor_page(changes, page, members, lambda it: it.id))


def members(change: Change) -> ChangeShown:
    """The change as v3 shows it."""
    shown: ChangeShown = {
        "id": change.id,
        "at": rfc3339(change.at_ms),
        "author": change.author,
        "action": change.action,
        "kind": change.kind,
        "resource_id": change.subject_id,
        "name": change.name,
        "detail": change.detail or None,
        "members": [
            {"member": one.member, "before": one.before, "after": one.after}  # type: ignore[typeddict-item]
            for one in members_of(change.members)
        ]
        or None,
    }
    return present(shown)
