"""Subjects in API v3: what is said of those whose usage is metered.

Events may name any subject; only those that something is said of are listed here. Those that a
meter has usage of are listed by `list-meter-subjects`.
"""

from typing import Annotated, Any, Final, Literal, NotRequired, TypeVar

import msgspec
from aiohttp import web
from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import NumberMetaShown, numbered_answer, numbered_page, page_shape, part
from control.shapes.subject import DisplayName, Key, Metadata
from control.shapes.text_filter import NamedFilter
from meterline.access import KEPT, Kept, Scope, Subject, SubjectDraft
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Closed, InstantShown, NoParameters, NumberedPage, Parameters, Ulid
from meterline.problem import Problem, ProblemType
from meterline.window import rfc3339


class SubjectFilter(NamedFilter):
    """Conditions on subjects, joined by and. One without a name has the name ""."""


class SubjectListParameters(Parameters):
    """Which subjects, which page."""

    page: NumberedPage = NumberedPage()
    filter: SubjectFilter = SubjectFilter()


class UpdateSubjectBody(Closed):
    """What is said of a subject; what it leaves out stays. `""` and `{}` empty a member."""

    name: Maybe[DisplayName] = None
    metadata: Maybe[Metadata] = None

    def draft(self, key: str) -> SubjectDraft:
        """What it asks for."""
        metadata: str | Literal[Kept.KEPT] | None = KEPT
        if self.metadata is not None:
            metadata = msgspec.json.encode(self.metadata).decode() if self.metadata else None
        name = KEPT if self.name is None else self.name or None
        return SubjectDraft(key=key, display_name=name, metadata=metadata)


class CreateSubjectBody(UpdateSubjectBody):
    """A subject, and what is said of it."""

    key: Key


class SubjectShown(TypedDict):
    """A subject, and what is said of it. What was not said is left out."""

    id: Ulid
    key: Annotated[str, Field(description="`subject` of its events.")]
    name: NotRequired[Maybe[str]]
    metadata: NotRequired[Maybe[dict[str, JsonValue]]]
    created_at: InstantShown
    updated_at: InstantShown


_PAGE: Final = page_shape(
    "SubjectPageShown", SubjectShown, "A page of subjects, by key.", NumberMetaShown
)
_SENT: Final = {"name": "Customer One", "metadata": {"hubspotId": "123456"}}
_SHOWN: Final = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    "key": "customer-1",
    **_SENT,
    "created_at": "2026-01-31T10:00:00Z",
    "updated_at": "2026-01-31T10:00:00Z",
}


_GivenBody = TypeVar("_GivenBody", bound=UpdateSubjectBody)


class V3Subjects(OfStores, tag="Subjects"):
    """The handlers of subjects."""

    @Operation(
        id="list-subjects",
        route="GET /subjects",
        summary="List subjects",
        description="List the subjects that something is said of; events may name any others.",
        scope=Scope.SUBJECTS_READ,
        parameters=SubjectListParameters,
        answer=numbered_answer("A page of subjects.", _PAGE, _SHOWN),
    )
    async def list(self, call: Call[SubjectListParameters, None]) -> web.Response:
        """One page of the subjects that pass the filter."""
        asked = call.parameters
        subjects = await self._stores.subjects.subjects(call.namespace)
        listed = (it for it in subjects if asked.filter.accepts(it.key, it.display_name or ""))
        found = sorted(listed, key=lambda subject: subject.key)
        shown_ = [*map(shown, part(found, asked.page.number, asked.page.size))]
        return json_response(numbered_page(asked.page, shown_, len(found)))

    @Operation(
        id="create-subject",
        route="POST /subjects",
        summary="Create a subject",
        scope=Scope.SUBJECTS_WRITE,
        body=json_body(CreateSubjectBody, {"key": "customer-1", **_SENT}),
        answer=Answer(201, "The subject.", SubjectShown, example=_SHOWN),
        problems=(ProblemType.CONFLICT,),
    )
    async def create(self, call: Call[NoParameters, CreateSubjectBody]) -> web.Response:
        """201 with the subject; 409 where its key is taken, or there would be too many."""
        key = call.body.key
        found = await self._stores.subjects.subject(call.namespace, key)
        if found is not None and found.key == key:
            raise Problem(ProblemType.CONFLICT, f"Subject {key!r} is there already; update it.")
        return json_response(shown(await self._say(call, key)), status=201)

    @Operation(
        id="update-subject",
        route="PUT /subjects/{subjectId}",
        summary="Update a subject",
        scope=Scope.SUBJECTS_WRITE,
        body=json_body(UpdateSubjectBody, _SENT),
        answer=Answer(200, "The subject as it is now.", SubjectShown, example=_SHOWN),
    )
    async def update(self, call: Call[NoParameters, UpdateSubjectBody]) -> web.Response:
        """200 with the subject."""
        found = await self._stores.subject(call.namespace, call.names["subjectId"])
        return json_response(shown(await self._say(call, found.key)))

    @Operation(
        id="get-subject",
        route="GET /subjects/{subjectId}",
        summary="Get a subject",
        scope=Scope.SUBJECTS_READ,
        answer=Answer(200, "The subject.", SubjectShown, example=_SHOWN),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The subject."""
        return json_response(
            shown(await self._stores.subject(call.namespace, call.names["subjectId"]))
        )

    async def _say(self, call: Call[NoParameters, _GivenBody], key: str) -> Subject:
        stores = self._stores
        (subject,) = await stores.subjects.upsert_subjects(
            call.namespace, [call.body.draft(key)], stores.now_ms, author=call.author
        )
        return subject

    @Operation(
        id="delete-subject",
        route="DELETE /subjects/{subjectId}",
        summary="Delete a subject",
        description="Erase what is said of a subject. Its events and its usage stay.",
        scope=Scope.SUBJECTS_WRITE,
        answer=Answer(204, "Nothing is said of it any more."),
    )
    async def delete(self, call: Call[NoParameters, None]) -> web.Response:
        """204."""
        stores, name = self._stores, call.names["subjectId"]
        await stores.subjects.delete_subject(
            call.namespace, name, stores.now_ms, author=call.author
        )
        return web.Response(status=204)


def shown(subject: Subject) -> SubjectShown:
    """The subject as v3 shows it."""
    metadata = subject.metadata
    shown: SubjectShown = {
        "id": subject.id,
        "key": subject.key,
        "name": subject.display_name,
        "metadata": None
        if metadata is None
        else msgspec.json.decode(metadata, type=dict[str, Any]),
        "created_at": rfc3339(subject.created_at_ms),
        "updated_at": rfc3339(subject.updated_at_ms),
    }
    return present(shown)
