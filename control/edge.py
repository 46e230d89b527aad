"""What a request says, read once at the door: bodies, query parameters, names in paths.

Everything that is wrong is collected and raised as one `Problem` whose faults name fields as they
were sent.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Final, TypeVar

from aiohttp import web
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from meterline.http import read_body
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    CONTROL_BODY_BYTES_MAX,
    METER_DESCRIPTION_CHARS_MAX,
)
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.window import parse_instant, rfc3339, zone_named

_Model = TypeVar("_Model", bound=BaseModel)
_JSON_TYPE: Final = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.ASCII | re.IGNORECASE)
_RULES: Final = {
    "missing": "required",
    "extra_forbidden": "unknown_property",
    "string_too_short": "min_length",
    "string_too_long": "max_length",
    "too_short": "min_items",
    "too_long": "max_items",
    "enum": "enum",
    "literal_error": "enum",
    "string_pattern_mismatch": "matches_regex",
    "greater_than_equal": "minimum",
    "less_than_equal": "maximum",
}
_OWN_WORDS: Final = {
    "missing": "is required",
    "extra_forbidden": "is not known here; leave it out",
}


class Closed(BaseModel):
    """A JSON body: members that it does not name are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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
        raise PydanticCustomError("is_date_time", "{words}", {"words": str(error)}) from error


def _zone(name: str) -> str:
    try:
        zone_named(name)
    except ValueError as error:
        raise PydanticCustomError("is_time_zone", "{words}", {"words": str(error)}) from error
    return name


Text = Annotated[str, AfterValidator(_without_nul)]
EventType = Annotated[str, Field(max_length=ATTRIBUTE_CHARS_MAX), AfterValidator(_without_nul)]
Description = Annotated[
    str, Field(max_length=METER_DESCRIPTION_CHARS_MAX), AfterValidator(_without_nul)
]
Instant = Annotated[int, BeforeValidator(_instant)]  # unix milliseconds
ZoneName = Annotated[str, AfterValidator(_zone)]


async def body_of(request: web.Request, model: type[_Model]) -> _Model:
    """The JSON body as a model. Raises `Problem` with every fault of it."""
    return validated(model, await json_body(request))


async def json_body(request: web.Request) -> bytes:
    """The bytes of a body that is declared as JSON. Raises `Problem`."""
    declared = request.headers.get("Content-Type", "").split(";")[0].strip()
    if not _JSON_TYPE.fullmatch(declared):
        # Also a guard: a page of another site cannot send JSON without asking first (CORS).
        detail = f"Send JSON with Content-Type: application/json, not {declared[:100]!r}."
        raise Problem(ProblemType.UNSUPPORTED_CONTENT_TYPE, detail)
    return await read_body(request, CONTROL_BODY_BYTES_MAX)


def validated(model: type[_Model], body: bytes) -> _Model:
    """A JSON text as a model. Raises `Problem` with every fault of it."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        if found[0]["type"] == "json_invalid":
            detail = f"The body is not JSON: {found[0]['msg'].removeprefix('Invalid JSON: ')}"
            raise Problem(ProblemType.BAD_REQUEST, detail) from error
        raise invalid(*(_fault(one) for one in found)) from error


def _fault(found: ErrorDetails) -> Fault:
    # A fault of a key comes as (..., key, "[key]").
    parts = [str(part) for part in found["loc"] if part != "[key]"]
    kind = found["type"]
    rule = _RULES.get(kind, "type" if kind.endswith("_type") else kind)
    return Fault(".".join(parts) or "body", _OWN_WORDS.get(kind, found["msg"]), rule)


def parameters_of(request: web.Request, allowed: Collection[str]) -> Mapping[str, str]:
    """The query parameters. Raises `Problem` for those not in `allowed` and for one given twice."""
    faults = []
    for name in dict.fromkeys(request.query):
        if name not in allowed:
            known = f"known here: {', '.join(allowed)}" if allowed else "none is known here"
            reason = f"is not known; {known}"
            faults.append(Fault(name, reason, "unknown_property", "query"))
        elif len(request.query.getall(name)) > 1:
            faults.append(Fault(name, "is given more than once", "max_items", "query"))
    if faults:
        raise invalid(*faults)
    return {name: request.query[name] for name in request.query}


def integer_parameter(
    parameters: Mapping[str, str], name: str, default: int, least: int, most: int
) -> int:
    """A whole number in [least, most] among the query parameters. Raises `Problem`."""
    text = parameters.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not least <= int(text) <= most:
        reason = f"{text[:100]!r} is no whole number from {least} to {most}"
        raise invalid(Fault(name, reason, "type", "query"))
    return int(text)


def path_name(request: web.Request) -> str:
    """The id or key in the path; whatever cannot be one gives `""`, which nothing has."""
    name = request.match_info["id_or_key"]
    return name if len(name) <= ATTRIBUTE_CHARS_MAX and re.fullmatch(r"\w+", name, re.ASCII) else ""
