"""From a request to a `Call`: names, query parameters and body, with every fault at once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from meterline.access import Principal
from meterline.http.bodies import read_body
from meterline.http.operation import Call, Operation
from meterline.limits import ATTRIBUTE_CHARS_MAX
from meterline.problem import Fault, Problem, ProblemType, invalid, not_found

_Model = TypeVar("_Model")
_JSON_TYPE: Final = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.ASCII | re.IGNORECASE)
_NAME: Final = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\]){0,3})")
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
    "json_invalid": "json",
}
OWN_MESSAGES: Final = {
    "missing": "is required",
    "extra_forbidden": "is not known here; leave it out",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}
"""By pydantic's type of an error: pydantic's own words name its classes and Python's types."""


async def read_call(
    operation: Operation[Any, Any], request: web.Request, principal: Principal
) -> Call[Any, Any]:
    """The call that a request is. Raises `Problem` with every fault of parameters and body."""
    names = _names(operation, request)
    faults: list[Fault] = []
    parameters = _parameters(operation.parameters, request, faults)
    sent, body = b"", None
    if operation.body.model is not None:
        if operation.body.required or request.body_exists:
            sent = await json_bytes(request, operation.body.bytes_max)
        else:
            sent = b"{}"
        try:
            body = validated(operation.body.model, sent)
        except Problem as problem:
            faults += problem.faults
    if faults:
        raise invalid(*faults)
    return Call(request, principal, names, parameters, body, sent)


async def json_bytes(request: web.Request, bytes_max: int) -> bytes:
    """The bytes of a body that is declared as JSON. Raises `Problem`."""
    declared = request.headers.get("Content-Type", "").split(";")[0].strip()
    if not _JSON_TYPE.fullmatch(declared):
        # Also a guard: a page of another site cannot send JSON without asking first (CORS).
        detail = f"Send JSON with Content-Type: application/json, not {declared[:100]!r}."
        raise Problem(ProblemType.UNSUPPORTED_CONTENT_TYPE, detail)
    return await read_body(request, bytes_max)


def validated(model: type[_Model], body: bytes) -> _Model:
    """A JSON text as a model. Raises `Problem` with every fault of it."""
    try:
        read: _Model = _adapter(model).validate_json(body)
        return read
    except ValidationError as error:
        raise invalid(*faults_of(error)) from error


def _adapter(model: Any) -> TypeAdapter[Any]:
    found = _adapters.get(model)
    if found is None:
        found = _adapters[model] = TypeAdapter(model)
    return found


_adapters: Final[dict[Any, TypeAdapter[Any]]] = {}  # as many as there are shapes


def faults_of(error: ValidationError) -> list[Fault]:
    """What a body is refused for, by the names of its members."""
    found = error.errors(include_url=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        message = found[0]["msg"].removeprefix("Invalid JSON: ")
        return [Fault("body", f"is not JSON: {message}", "json")]
    return [_body_fault(one) for one in found]


def _body_fault(found: ErrorDetails) -> Fault:
    # A fault of a key comes as (..., key, "[key]").
    parts = [str(part) for part in found["loc"] if part != "[key]"]
    return Fault(".".join(parts) or "body", _message(found), _rule(found))


def _rule(found: ErrorDetails) -> str:
    kind = found["type"]
    return _RULES.get(kind, "type" if kind.endswith("_type") else kind)


def _message(found: ErrorDetails) -> str:
    own, context = OWN_MESSAGES.get(found["type"]), found.get("ctx", {})
    try:
        return found["msg"] if own is None else own.format_map(context)
    except KeyError:  # a fault of ours under the same rule, whose words are its own
        return found["msg"]


def _names(operation: Operation[Any, Any], request: web.Request) -> Mapping[str, str]:
    """The names in the path; one that cannot be a name of its kind is not found."""
    names = {}
    for key, kind in operation.names.items():
        name = request.match_info[key]
        fits = len(name) <= ATTRIBUTE_CHARS_MAX and re.fullmatch(kind.pattern, name, re.ASCII)
        if not fits:
            raise not_found(kind.what, name[:ATTRIBUTE_CHARS_MAX])
        names[key] = name
    return names


def _parameters(model: type[_Model], request: web.Request, faults: list[Fault]) -> _Model | None:
    try:
        read: _Model = _adapter(model).validate_python(_nested(request))
        return read
    except ValidationError as error:
        found = error.errors(include_url=False)
        faults += [_query_fault(one, request) for one in found]
        return None


def _nested(request: web.Request) -> dict[str, object]:
    """Query parameters by name; `page[size]=1` as {"page": {"size": "1"}}, what is given more than
    once as a list.
    """
    tree: dict[str, object] = {}
    for name in dict.fromkeys(request.query):
        values: Sequence[str] = request.query.getall(name)
        value: object = values[0] if len(values) == 1 else list(values)
        if not _put(tree, name, value):
            tree[name] = value
    return tree


def _put(tree: dict[str, object], name: str, value: object) -> bool:
    """Put a value where its brackets say; False where there is no such place."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    *outer, last = [found[1], *re.findall(r"\[([^\[\]]+)\]", found[2])]
    at = tree
    for part in outer:
        inner = at.setdefault(part, {})
        if not isinstance(inner, dict):
            return False
        at = inner
    if last in at:
        return False
    at[last] = value
    return True


def _query_fault(found: ErrorDetails, request: web.Request) -> Fault:
    parts = [str(part) for part in found["loc"] if part != "[key]"]
    name = parts[0] + "".join(f"[{part}]" for part in parts[1:])
    repeated = len(request.query.getall(name, [])) > 1
    if repeated and found["type"].endswith("_type"):
        return Fault(name, "is given more than once", "max_items", "query")
    return Fault(name, _message(found), _rule(found), "query")
