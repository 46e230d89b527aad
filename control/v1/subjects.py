"""Subjects in API v1, as in OpenMeter: what is said of those whose usage is metered."""

from typing import Annotated, Any, Final, Literal, NotRequired

import msgspec
from aiohttp import web
from pydantic import Field, JsonValue, RootModel, model_validator
from typing_extensions import TypedDict

from control.handlers import OfStores, Operation
from control.shapes.optional_members import Maybe, instant, present
from control.shapes.subject import DisplayName, Key, Metadata
from control.v1.meters import Camel
from meterline.access import KEPT, Kept, Scope, Subject, SubjectDraft
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import AnyParameters, Instant, InstantShown, NoNul, Ulid
from meterline.limits import SUBJECT_NAME_CHARS_MAX, SUBJECTS_UPSERT_MAX
from meterline.problem import ProblemType
from meterline.window import rfc3339

CustomerId = Annotated[
    str,
    Field(
        max_length=SUBJECT_NAME_CHARS_MAX,
        pattern="^cus_",
        description="Of the customer at Stripe; only kept.",
        examples=["cus_1"],
    ),
    NoNul,
]


class SubjectBody(Camel):
    """What is said of a subject. What is absent stays as it was, null takes it away."""

    key: Key
    display_name: DisplayName | None = None
    metadata: Metadata | None = None
    current_period_start: Annotated[Instant | None, Field(description="Only kept.")] = None
    current_period_end: Annotated[Instant | None, Field(description="Only kept.")] = None
    stripe_customer_id: CustomerId | None = None

    def draft(self) -> SubjectDraft:
        """What it asks for."""
        metadata = self.metadata
        return SubjectDraft(
            key=self.key,
            display_name=self._given("display_name", self.display_name),
            metadata=self._given(
                "metadata", None if metadata is None else msgspec.json.encode(metadata).decode()
            ),
            current_period_start_ms=self._at("current_period_start", self.current_period_start),
            current_period_end_ms=self._at("current_period_end", self.current_period_end),
            stripe_customer_id=self._given("stripe_customer_id", self.stripe_customer_id),
        )

    def _given(self, name: str, value: str | None) -> str | Literal[Kept.KEPT] | None:
        return value if name in self.model_fields_set else KEPT

    def _at(self, name: str, value: int | None) -> int | Literal[Kept.KEPT] | None:
        return value if name in self.model_fields_set else KEPT


class SubjectsBody(RootModel[Annotated[list[SubjectBody], Field(max_length=SUBJECTS_UPSERT_MAX)]]):
    """Subjects; one alone may come without its array."""

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, sent: Any) -> Any:
        return [sent] if isinstance(sent, dict) else sent


class SubjectShown(TypedDict):
    """A subject, and what is said of it. What was not said is left out."""

    id: Ulid
    key: str
    displayName: NotRequired[Maybe[str]]
    metadata: NotRequired[Maybe[dict[str, JsonValue]]]
    currentPeriodStart: NotRequired[Maybe[InstantShown]]
    currentPeriodEnd: NotRequired[Maybe[InstantShown]]
    stripeCustomerId: NotRequired[Maybe[str]]
    createdAt: InstantShown
    updatedAt: InstantShown


SubjectsShown = list[SubjectShown]
_SENT: Final = {
    "key": "customer-1",
    "displayName": "Customer One",
    "metadata": {"hubspotId": "123456"},
    "stripeCustomerId": "cus_1",
}
_SHOWN: Final = {
    "id": "01M7ZMF4YA7D2SQ292V0W9JPT8",
    **_SENT,
    "createdAt": "2026-01-31T10:00:00Z",
    "updatedAt": "2026-01-31T10:00:00Z",
}


class V1Subjects(OfStores, tag="Subjects"):
    """Handlers of the collection and of one subject."""

    @Operation(
        id="listSubjects",
        route="GET /v1/subjects",
        summary="List subjects",
        description="List the subjects that something is said of; events may name any others.",
        scope=Scope.SUBJECTS_READ,
        parameters=AnyParameters,
        answer=Answer(200, "All of them, by creation.", SubjectsShown, example=[_SHOWN]),
    )
    async def list(self, call: Call[AnyParameters, None]) -> web.Response:
        """All subjects in a bare array."""
        subjects = await self._stores.subjects.subjects(call.namespace)
        return json_response([shown(subject) for subject in subjects])

    @Operation(
        id="upsertSubject",
        route="POST /v1/subjects",
        summary="Upsert subjects",
        description=(
            "Say something of subjects, all or none: those with a new key are made, others "
            "changed. What is absent stays as it was; null takes it away."
        ),
        scope=Scope.SUBJECTS_WRITE,
        parameters=AnyParameters,
        body=json_body(SubjectsBody, [_SENT]),
        answer=Answer(
            200,
            "The subjects as they are now, in the order sent.",
            SubjectsShown,
            example=[_SHOWN],
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def upsert(self, call: Call[AnyParameters, SubjectsBody]) -> web.Response:
        """200 with the subjects; 409 where there would be too many."""
        stores = self._stores
        drafts = [body.draft() for body in call.body.root]
        subjects = await stores.subjects.upsert_subjects(
            call.namespace, drafts, stores.now_ms, author=call.author
        )
        return json_response([shown(subject) for subject in subjects])

    @Operation(
        id="getSubject",
        route="GET /v1/subjects/{subjectIdOrKey}",
        summary="Get a subject",
        scope=Scope.SUBJECTS_READ,
        parameters=AnyParameters,
        answer=Answer(200, "The subject.", SubjectShown, example=_SHOWN),
    )
    async def get(self, call: Call[AnyParameters, None]) -> web.Response:
        """The subject."""
        subject = await self._stores.subject(call.namespace, call.names["subjectIdOrKey"])
        return json_response(shown(subject))

    @Operation(
        id="deleteSubject",
        route="DELETE /v1/subjects/{subjectIdOrKey}",
        summary="Delete a subject",
        description="Erase what is said of a subject. Its events and its usage stay.",
        scope=Scope.SUBJECTS_WRITE,
        parameters=AnyParameters,
        answer=Answer(204, "Nothing is said of it any more."),
    )
    async def delete(self, call: Call[AnyParameters, None]) -> web.Response:
        """204."""
        stores = self._stores
        await stores.subjects.delete_subject(
            call.namespace, call.names["subjectIdOrKey"], stores.now_ms, author=call.author
        )
        return web.Response(status=204)


def shown(subject: Subject) -> SubjectShown:
    """The subject as v1 shows it."""
    metadata = subject.metadata
    shown: SubjectShown = {
        "id": subject.id,
        "key": subject.key,
        "displayName": subject.display_name,
        "metadata": None
        if metadata is None
        else msgspec.json.decode(metadata, type=dict[str, Any]),
        "currentPeriodStart": instant(subject.current_period_start_ms),
        "currentPeriodEnd": instant(subject.current_period_end_ms),
        "stripeCustomerId": subject.stripe_customer_id,
        "createdAt": rfc3339(subject.created_at_ms),
        "updatedAt": rfc3339(subject.updated_at_ms),
    }
    return present(shown)
