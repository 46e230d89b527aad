"""The OpenAPI 3.1 document of a version of the API, made from its operations: what is published is
what is enforced (contract section 4.3).

Schemas come from the very models that read requests and from the TypedDicts that answers are. The
names of shapes lose their `Shown`, and `Body` becomes `Request`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from control.openapi.problem_shapes import LegacyProblemShown, ProblemShown
from control.openapi.schemas import REF, AnyOperation, Document, Shapes, shapes_of
from meterline.http.operation import Answer
from meterline.problem import MEDIA_TYPE, ProblemType

__all__ = ["About", "Document", "Webhook", "document"]

_LIMITED: Final = ("RateLimit", "RateLimit-Policy")
_HEADERS: Final = {
    "X-Request-Id": ("Id of the request. The `instance` of a problem ends with it.", True),
    "RateLimit": ("What is left of the limits of the plan (IETF draft).", False),
    "RateLimit-Policy": ("The limits of the plan (IETF draft).", False),
    "Retry-After": ("Seconds to wait before the next try.", True),
    "WWW-Authenticate": ("The operation needs a Bearer key.", True),
}


@dataclass(frozen=True, slots=True)
class About:
    """What a document says of itself. `prefix` stands before the path of each operation."""

    title: str
    version: str
    prefix: str
    description: str
    tags: Mapping[str, str]  # name to description, in order
    legacy: bool = False  # problems have `extensions`


@dataclass(frozen=True, slots=True)
class Webhook:
    """A message that is sent to others: its shape, the operation without its body, an example."""

    shape: Any
    operation: Mapping[str, Any]
    example: object


NO_WEBHOOKS: Final[Mapping[str, Webhook]] = MappingProxyType({})


def document(
    about: About,
    operations: Iterable[AnyOperation],
    webhooks: Mapping[str, Webhook] = NO_WEBHOOKS,
) -> Document:
    """The document. Its server is `/`: whatever address it was fetched from."""
    listed = sorted(operations, key=lambda one: (one.path, one.method))
    problem = LegacyProblemShown if about.legacy else ProblemShown
    shapes = shapes_of(listed, [problem, *(hook.shape for hook in webhooks.values())])
    paths: Document = {}
    for one in listed:
        item = paths.setdefault(about.prefix + one.path, {})
        assert one.method.lower() not in item, f"{one.id}: its place is taken"
        item[one.method.lower()] = _operation(one, shapes)
    hooks = {name: _webhook(hook, shapes) for name, hook in webhooks.items()}
    responses = _problem_responses(listed, shapes.shown(problem), legacy=about.legacy)
    used = {one.tag for one in listed}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": about.version,
            "description": about.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The installation that serves this document."}],
        "security": [{"key": []}],
        "tags": [
            {"name": name, "description": description}
            for name, description in about.tags.items()
            if name in used
        ],
        "paths": paths,
        **({"webhooks": hooks} if hooks else {}),
        "components": {
            "schemas": _used([paths, hooks, responses], shapes.named),
            "responses": responses,
            "headers": {
                name: {
                    "description": description,
                    "required": required,
                    "schema": {"type": "integer" if name == "Retry-After" else "string"},
                }
                for name, (description, required) in _HEADERS.items()
            },
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key. Without keys (mode none) the header is ignored.",
                }
            },
        },
    }


def _used(documents: Sequence[Document], components: Mapping[str, Document]) -> dict[str, Document]:
    """The components that something refers to."""
    used: set[str] = set()
    left: list[Any] = [*documents]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix(REF)
            if name in components and name not in used:
                used.add(name)
                left.append(components[name])
            left += node.values()
        elif isinstance(node, list):
            left += node
    return {name: schema for name, schema in components.items() if name in used}


def _webhook(hook: Webhook, shapes: Shapes) -> Document:
    content = {"application/json": {"schema": shapes.shown(hook.shape), "example": hook.example}}
    return {"post": {**hook.operation, "requestBody": {"required": True, "content": content}}}


def _operation(one: AnyOperation, shapes: Shapes) -> Document:
    made: Document = {
        "operationId": one.id,
        "tags": [one.tag],
        "summary": one.summary,
        "description": _description(one),
    }
    parameters = [*_names(one), *_parameters(shapes.whole(shapes.sent(one.parameters)), shapes)]
    parameters += _header_parameters(one)
    if parameters:
        made["parameters"] = parameters
    if one.body.contents:
        made["requestBody"] = {
            "required": one.body.required,
            "content": {
                media: {
                    "schema": shapes.sent(shape),
                    "example": _example_for(one.body.example, media),
                }
                for media, shape in one.body.contents.items()
            },
        }
    made["responses"] = {**_answers(one, shapes), **_problems(one)}
    if one.scope is None:
        made["security"] = []
    return made


def _example_for(example: object, media: str) -> object:
    """An example by media type, where it depends on it."""
    if isinstance(example, dict) and media in example:
        return example[media]
    return example


def _description(one: AnyOperation) -> str:
    description = one.description or f"{one.summary}."
    return description if one.scope is None else f"{description}\n\nScope: `{one.scope.value}`."


def _names(one: AnyOperation) -> list[Document]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": kind.description,
            "schema": {"type": "string", "pattern": f"^{kind.pattern}$"},
            "example": kind.example,
        }
        for name, kind in one.names.items()
    ]


def _header_parameters(one: AnyOperation) -> list[Document]:
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": description,
            "schema": {"type": "string"},
        }
        for name, description in one.headers.items()
    ]


def _parameters(model: Document, shapes: Shapes) -> list[Document]:
    required = model.get("required", ())
    return [
        _parameter(name, schema, shapes, required=name in required)
        for name, schema in model.get("properties", {}).items()
    ]


def _parameter(name: str, schema: Document, shapes: Shapes, *, required: bool) -> Document:
    schema = dict(schema)
    whole = shapes.whole(schema)
    nested = whole.get("type") == "object"
    description = schema.pop("description", whole.get("description"))
    if nested:
        schema.pop("default", None)
    made: Document = {"name": name, "in": "query", "required": required, "description": description}
    if nested:
        made |= {"style": "deepObject", "explode": True}
    elif schema.get("type") == "array":
        made |= {"style": "form", "explode": True}
    return made | {"schema": schema}


def _answers(one: AnyOperation, shapes: Shapes) -> Document:
    by_status: dict[str, Document] = {}
    for answer in one.answers:
        made = by_status.setdefault(
            str(answer.status),
            {"description": answer.description, "headers": _answer_headers(one, answer)},
        )
        if answer.shape is not None:
            content: Document = {"schema": shapes.shown(answer.shape)}
            if answer.example is not None:
                content["example"] = answer.example
            made.setdefault("content", {})[answer.media] = content
    return by_status


def _answer_headers(one: AnyOperation, answer: Answer) -> Document:
    own = {
        name: {"description": description, "schema": {"type": "string"}}
        for name, description in answer.headers.items()
    }
    return {**_headers("X-Request-Id", *(_LIMITED if one.scope else ())), **own}


def _problems(one: AnyOperation) -> Document:
    return {
        str(status): {"$ref": f"#/components/responses/{_problem_name(kinds)}"}
        for status, kinds in sorted(_by_status(one).items())
    }


def _by_status(one: AnyOperation) -> dict[int, tuple[ProblemType, ...]]:
    by_status: dict[int, tuple[ProblemType, ...]] = {}
    for kind in one.every_problem:
        by_status[kind.status] = (*by_status.get(kind.status, ()), kind)
    return by_status


def _problem_name(kinds: Sequence[ProblemType]) -> str:
    """`BadRequest`; with further types of the same status, `BadRequestOrInvalidEvent`."""
    return "Or".join("".join(part.title() for part in kind.slug.split("-")) for kind in kinds)


def _problem_responses(
    operations: Sequence[AnyOperation], schema: Document, *, legacy: bool
) -> dict[str, Document]:
    """The answers that tell a problem, by name."""
    every = {kinds for one in operations for kinds in _by_status(one).values()}
    return {
        _problem_name(kinds): {
            "description": ", ".join(f"{kind.title} (`{kind.uri}`)" for kind in kinds),
            "headers": _headers("X-Request-Id", *_problem_headers(kinds[0].status)),
            "content": {
                MEDIA_TYPE: {
                    "schema": schema,
                    "example": _problem_example(kinds[0], legacy=legacy),
                }
            },
        }
        for kinds in sorted(every, key=lambda them: (them[0].status, len(them)))
    }


def _problem_headers(status: int) -> tuple[str, ...]:
    match status:
        case 401:
            return ("WWW-Authenticate",)
        case 429:
            return ("Retry-After", *_LIMITED)
        case 503:
            return ("Retry-After",)
        case _:
            return ()


def _headers(*names: str) -> Document:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem_example(kind: ProblemType, *, legacy: bool) -> Document:
    example: Document = {
        "type": kind.uri,
        "title": kind.title,
        "status": kind.status,
        "detail": "What went wrong, for people.",
        "instance": "urn:request:01M7ZMF4YA7D2SQ292V0W9JPT8",
    }
    return {**example, "extensions": {"validationErrors": []}} if legacy else example
