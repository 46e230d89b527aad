"""Problems as the documents show them (contract section 7; RFC 9457)."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from meterline.problem import ProblemType

URIS = tuple(kind.uri for kind in ProblemType)


class InvalidParameterShown(TypedDict):
    """One thing that is wrong with a request."""

    field: Annotated[str, Field(description="The member or parameter, by its name as sent.")]
    reason: Annotated[str, Field(description="Why, for people.")]
    source: Annotated[Literal["body", "path", "query", "header"], Field(description="Where.")]
    rule: NotRequired[Annotated[str, Field(description="Which rule it breaks, for programs.")]]
    index: NotRequired[Annotated[int, Field(ge=0, description="The event's place in a batch.")]]


class ProblemShown(TypedDict):
    """An error (RFC 9457): branch on `status` and `type`, log `instance`, read `detail`."""

    type: Annotated[str, Field(json_schema_extra={"enum": list(URIS)})]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    instance: Annotated[str, Field(pattern=r"^urn:request:[0-9A-Z]{26}$")]
    invalid_parameters: NotRequired[list[InvalidParameterShown]]


class ValidationErrorShown(TypedDict):
    """One thing that is wrong with a request, in v1's words."""

    field: str
    code: str
    message: str


class ExtensionsShown(TypedDict):
    """What v1 says beyond RFC 9457."""

    validationErrors: list[ValidationErrorShown]


class LegacyProblemShown(ProblemShown):
    """An error of v1 and v2: that of v3 and `extensions`."""

    extensions: ExtensionsShown
