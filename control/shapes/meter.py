"""The members of a meter as they are sent, in every version of the API alike."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import AfterValidator, BaseModel, Field, ModelWrapValidatorHandler, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from meterline.event import PathError, check_path
from meterline.http.shapes import NoNul
from meterline.limits import (
    DIMENSIONS_MAX,
    METER_KEY_CHARS_MAX,
    METER_NAME_CHARS_MAX,
    PATH_CHARS_MAX,
)
from meterline.meter import (
    DIMENSION_PATTERN,
    KEY_PATTERN,
    RESERVED_DIMENSIONS,
    Aggregation,
    dimension_fault,
    disagreements,
)
from meterline.problem import Fault

_Model = TypeVar("_Model", bound=BaseModel)


def _path(text: str) -> str:
    try:
        check_path(text)
    except PathError as error:
        rule = "json_path" if text.startswith("$") else "matches_regex"
        raise _fault_of(rule, str(error)) from error
    return text


def _dimension(name: str) -> str:
    if (found := dimension_fault(name)) is not None:
        message, rule = found
        raise _fault_of(rule, message)
    return name


MeterKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=METER_KEY_CHARS_MAX,
        pattern=f"^{KEY_PATTERN}$",
        description="Names the meter in its namespace, for ever.",
        examples=["tokens_total"],
    ),
]
MeterName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=METER_NAME_CHARS_MAX,
        description="For people.",
        examples=["Tokens"],
    ),
    NoNul,
]
JsonPath = Annotated[
    str,
    # documented only: what is wrong is said in words by the check
    Field(
        max_length=PATH_CHARS_MAX,
        examples=["$.tokens"],
        json_schema_extra={"pattern": r"^\$"},
    ),
    NoNul,
    AfterValidator(_path),
]
Dimensions = Annotated[
    dict[Annotated[str, AfterValidator(_dimension)], JsonPath],
    Field(
        max_length=DIMENSIONS_MAX,
        description="What usage can be split by: a name, and a JSON path into `data`.",
        examples=[{"model": "$.model"}],
        json_schema_extra={
            "propertyNames": {
                "pattern": f"^{DIMENSION_PATTERN}$",
                "not": {"enum": sorted(RESERVED_DIMENSIONS)},
            }
        },
    ),
]
VALUE_DESCRIPTION: Final = (
    "JSON path into `data` to the value, a number or a text that is one (for unique_count: any "
    "text, number or boolean). Needed by all aggregations but count, which has none."
)


def pairs(members: Mapping[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    """Members as a meter holds them, sorted; None stays as it is."""
    return None if members is None else tuple(sorted(members.items()))


def judged_whole(
    handler: ModelWrapValidatorHandler[_Model], sent: Any, faults: Iterable[Fault]
) -> _Model:
    """A body, judged by its members and by the faults found between them: all are told at once."""
    lines = [
        InitErrorDetails(
            type=_fault_of(fault.rule, fault.reason),
            loc=tuple(fault.field.split(".", 1)),
            input=sent,
        )
        for fault in faults
    ]
    try:
        made = handler(sent)
    except ValidationError as error:
        found = [_again(one) for one in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(error.title, found + lines) from error
    if lines:
        raise ValidationError.from_exception_data(type(made).__name__, lines)
    return made


def disagreements_of(
    aggregation: object, value_property: object, dimensions: object
) -> list[Fault]:
    """What is wrong between members as they are sent; those of a wrong type are told elsewhere."""
    named, value, paths = str(aggregation).lower(), value_property, dimensions
    if named not in tuple(Aggregation) or not isinstance(value, str | None):
        return []
    pairs = [
        (name, path)
        for name, path in (paths if isinstance(paths, dict) else {}).items()
        if isinstance(path, str) and dimension_fault(name) is None
    ]
    return disagreements(Aggregation(named), value, pairs)


def _again(found: ErrorDetails) -> InitErrorDetails:
    fault = _fault_of(found["type"], found["msg"], found.get("ctx"))
    return InitErrorDetails(type=fault, loc=found["loc"], input=found["input"])


def _fault_of(
    rule: str, message: str, context: Mapping[str, object] | None = None
) -> PydanticCustomError:
    """A fault by its rule; `context` is what the words for that rule are made with."""
    return PydanticCustomError(
        cast("Any", rule), "{message}", {**(context or {}), "message": message}
    )
