"""The published document in the forms that each tool reads best. Made by rule, never by hand."""

from collections.abc import Callable, Iterator
from typing import Any, Final

Document = dict[str, Any]

SCHEMAS: Final = "#/components/schemas/"
RESPONSES: Final = "#/components/responses/"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch", "head", "options", "trace"})
# Members whose values are data, not parts of the document, whatever they look like.
_DATA: Final = frozenset({"example", "examples", "default", "enum", "const"})
# Members whose values map names of any kind to parts of the document.
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})


def for_typescript(document: Document) -> Document:
    """For openapi-typescript.

    Members that an object may have beside those it names are of any type: TypeScript would want
    the named ones to be of their type too.
    """
    made: Document = _each_schema(document, _with_open_others)
    return made


def for_go(document: Document) -> Document:
    """For oapi-codegen, which knows OpenAPI 3.1 in part.

    As for TypeScript, and: no webhooks (it would make a sender of them), no headers of answers (a
    type for each status of each operation; they can be read from the answer itself), one default
    answer for all problems of an operation, and lists and maps without a pointer, so that an empty
    one is sent and a missing one is not.
    """
    made: Document = _each_schema(
        document, lambda schema: _with_plain_containers(_with_open_others(schema))
    )
    made.pop("webhooks", None)
    made["components"].pop("headers", None)
    shared = made["components"].pop("responses", {})
    for operation in _operations(made):
        answers = {status: _found(it, shared) for status, it in operation["responses"].items()}
        operation["responses"] = _with_one_problem(answers)
    return made


def for_comparison(document: Document) -> Document:
    """For oasdiff, which looks neither into deepObject parameters nor at webhooks from the
    receiver's side.

    Each member of a deepObject becomes a parameter of its own (`filter[id][eq]`), and the body of a
    webhook becomes an answer: the server sends it, a client reads it.
    """
    schemas = document.get("components", {}).get("schemas", {})
    made: Document = _each_schema(document, lambda schema: schema)
    for item in made["paths"].values():
        for holder in (item, *(item[method] for method in _METHODS & item.keys())):
            if "parameters" in holder:
                holder["parameters"] = [
                    flat for one in holder["parameters"] for flat in _flattened(one, schemas)
                ]
    for name, item in made.pop("webhooks", {}).items():
        sent = item["post"]
        answer = {"description": "Sent.", "content": sent["requestBody"]["content"]}
        operation = {"operationId": sent["operationId"], "responses": {"200": answer}}
        made["paths"][f"/webhooks/{name}"] = {"get": operation}
    return made


def _each_schema(node: Any, change: Callable[[Document], Document]) -> Any:
    """A copy in which every mapping was changed, the innermost first."""
    if isinstance(node, list):
        return [_each_schema(one, change) for one in node]
    if not isinstance(node, dict):
        return node
    copied = {}
    for name, value in node.items():
        if name in _DATA:
            copied[name] = value
        elif name in _NAMED and isinstance(value, dict):
            copied[name] = {key: _each_schema(inner, change) for key, inner in value.items()}
        else:
            copied[name] = _each_schema(value, change)
    return change(copied)


def _with_open_others(schema: Document) -> Document:
    schema.pop("propertyNames", None)
    schema.pop("patternProperties", None)
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = True
    return schema


def _with_plain_containers(schema: Document) -> Document:
    for name, inner in schema.get("properties", {}).items():
        if name not in schema.get("required", ()):
            schema["properties"][name] = _plain_container(inner)
    return schema


def _plain_container(schema: Document) -> Document:
    match [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]:
        case [only]:  # what may be left out need not be null as well
            rest = {name: value for name, value in schema.items() if name != "anyOf"}
            schema = {**rest, **only}
    is_map = schema.get("type") == "object" and "properties" not in schema
    if schema.get("type") != "array" and not is_map:
        return schema
    return {
        **schema,
        "x-go-type-skip-optional-pointer": True,
        "x-omitempty": False,
        "x-omitzero": True,
    }


def _operations(document: Document) -> Iterator[Document]:
    for item in document["paths"].values():
        for method in sorted(_METHODS & item.keys()):
            yield item[method]


def _with_one_problem(answers: Document) -> Document:
    kept: Document = {}
    for status, answer in answers.items():
        plain = {name: value for name, value in answer.items() if name != "headers"}
        if status.startswith("2"):
            kept[status] = plain
        else:
            kept.setdefault("default", {**plain, "description": "A problem."})
    return kept


def _found(answer: Document, shared: Document) -> Document:
    name = answer.get("$ref", "").removeprefix(RESPONSES)
    found: Document = shared[name] if name else answer
    return found


def _flattened(parameter: Document, schemas: Document) -> Iterator[Document]:
    if parameter.get("style") != "deepObject":
        yield parameter
        return
    for name, schema in _leaves(parameter["name"], parameter["schema"], schemas):
        yield {"name": name, "in": "query", "required": False, "schema": schema}


def _leaves(name: str, schema: Document, schemas: Document) -> Iterator[tuple[str, Document]]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(SCHEMAS)]
    if "properties" not in schema:
        yield name, schema
        return
    for member, inner in schema["properties"].items():
        yield from _leaves(f"{name}[{member}]", inner, schemas)
