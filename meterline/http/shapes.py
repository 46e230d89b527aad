"""Shapes of what is sent and shown: bodies, query parameters, and the fields that they share.

A shape is what is enforced and what is published: the OpenAPI documents are made from it. Requests
are pydantic models, answers are closed TypedDicts (`Shown`), which cost nothing at run time.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    METER_DESCRIPTION_CHARS_MAX,
    PAGE_NUMBER_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
)
from meterline.window import parse_instant, rfc3339, zone_named

CLOSED: Final = ConfigDict(extra="forbid")  # `__pydantic_config__` of an answer


class Closed(BaseModel):
    """A JSON body: members that it does not name are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Parameters(BaseModel):
    """Query parameters of v3: those that it does not name are refused. Their values are texts.

    A nested model is written with brackets, `page[size]=20` (OpenAPI's deepObject).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class LooseParameters(BaseModel):
    """Query parameters of v1 and v2: others are ignored, as the peer does."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class NoParameters(Parameters):
    """For operations of v3 that take none."""


class AnyParameters(LooseParameters):
    """For operations of v1 and v2 that take none."""


def instant_ms(text: str) -> int:
    """Unix milliseconds of an RFC 3339 timestamp, years 1 to 9999 in UTC. Raises `ValueError`."""
    try:
        at_ms = parse_instant(text)
        rfc3339(at_ms)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is beyond the years 1 to 9999") from error
    return at_ms


def _without_nul(text: str) -> str:
    if "\x00" in text:  # PostgreSQL cannot hold it
        raise PydanticCustomError("matches_regex", "holds a NUL character")
    return text


def _instant(value: object) -> object:
    if not isinstance(value, str):
        raise PydanticCustomError("type", "must be an RFC 3339 timestamp in a string")
    try:
        return instant_ms(value)
    except ValueError as error:
        raise PydanticCustomError("is_date_time", "{message}", {"message": str(error)}) from error


def _zone(name: str) -> str:
    try:
        zone_named(name)
    except ValueError as error:
        raise PydanticCustomError("is_time_zone", "{message}", {"message": str(error)}) from error
    return name


def _digits(value: object) -> object:
    """A whole number in a query parameter: pydantic alone would take " 1_0 " for one."""
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) <= 9):  # noqa: PLR2004
            raise PydanticCustomError("type", "is no whole number")
        return int(value)
    return value


def _flag(value: object) -> object:
    """A truth among query parameters: pydantic alone would take "on" and "y" for one, too."""
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise PydanticCustomError("type", "must be true or false")
        return value == "true"
    return value


def _many(value: object) -> object:
    return [value] if isinstance(value, str) else value


_DATE_TIME: Final[dict[str, Any]] = {"type": "string", "format": "date-time"}

NoNul = AfterValidator(_without_nul)
"""Marks a text that has to be storable; it stands behind the bounds of its length."""
Text = Annotated[str, NoNul]
EventType = Annotated[
    str, Field(min_length=1, max_length=ATTRIBUTE_CHARS_MAX), AfterValidator(_without_nul)
]
Description = Annotated[
    str, Field(max_length=METER_DESCRIPTION_CHARS_MAX), AfterValidator(_without_nul)
]
Instant = Annotated[int, BeforeValidator(_instant), WithJsonSchema(_DATE_TIME)]
"""Sent as an RFC 3339 timestamp, taken as unix milliseconds."""
ZoneName = Annotated[str, AfterValidator(_zone), Field(examples=["Europe/Berlin"])]
Digits = BeforeValidator(_digits)
"""Marks a whole number among query parameters; it stands behind the bounds."""
Flag = Annotated[bool, BeforeValidator(_flag)]
"""A truth among query parameters."""
Many = BeforeValidator(_many)
"""Marks a list among query parameters: given once it is a list of one."""

# --- shown ---
InstantShown = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
DecimalShown = Annotated[
    str, Field(pattern=r"^-?[0-9]+(\.[0-9]+)?$", description="An exact decimal number.")
]
Ulid = Annotated[
    str, Field(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$", examples=["01M7ZMF4YA7D2SQ292V0W9JPT8"])
]

PageSize = Annotated[int, Field(ge=1, le=PAGE_SIZE_MAX, description="Entries of a page."), Digits]
PageNumber = Annotated[int, Field(ge=1, le=PAGE_NUMBER_MAX, description="Number, from 1."), Digits]
Cursor = Annotated[
    str,
    Field(max_length=ATTRIBUTE_CHARS_MAX, description="From `meta.page.next` of the page before."),
]


class CursorPage(Parameters):
    """Which part of a list, by cursor."""

    size: PageSize = PAGE_SIZE_DEFAULT
    after: Cursor | None = None


class NumberedPage(Parameters):
    """Which part of a list, by number."""

    size: PageSize = PAGE_SIZE_DEFAULT
    number: PageNumber = 1
