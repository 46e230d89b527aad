"""The schemas of an OpenAPI document, made from the shapes of its operations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import core_schema

from meterline.http.operation import Operation

Document = dict[str, Any]
AnyOperation = Operation[Any, Any]
REF: Final = "#/components/schemas/"
_TEMPLATE: Final = REF + "{model}"


class _Schemas(GenerateJsonSchema):
    """Closed TypedDicts, and no default that only says that a member may be left out."""

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        made = super().typed_dict_schema(schema)
        made.setdefault("additionalProperties", False)
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made


class _ParameterSchemas(_Schemas):
    """A query parameter cannot be null, only absent."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


_Named = dict[tuple[int, str], Document]


@dataclass(frozen=True, slots=True)
class Shapes:
    """The schemas of one document, by shape and mode, and by name."""

    made: _Named
    named: Mapping[str, Document]

    def sent(self, shape: object) -> Document:
        """Of what comes with a request."""
        return self.made[id(shape), "validation"]

    def shown(self, shape: object) -> Document:
        """Of what is answered."""
        return self.made[id(shape), "serialization"]

    def whole(self, schema: Document) -> Document:
        """A schema itself, where it is given by its name."""
        return self.named[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def shapes_of(operations: Sequence[AnyOperation], shown: Sequence[Any]) -> Shapes:
    """The schemas of all that operations take and answer, and of what else is shown."""
    sent = {id(one.parameters): one.parameters for one in operations}
    held = {(id(shape), mode): shape for shape, mode in _shapes(operations, shown)}
    made, defined = _made([(key, "validation", it) for key, it in sent.items()], _ParameterSchemas)
    others, more = _made([(key, mode, it) for (key, mode), it in held.items()], _Schemas)
    both = [name for name in defined.keys() & more.keys() if defined[name] != more[name]]
    assert not both, f"one schema for parameters, another for bodies: {both}"
    components = defined | more
    names = {name: _public(name) for name in components}
    assert len(set(names.values())) == len(names), f"two shapes of one name: {sorted(names)}"
    renamed = {
        _TEMPLATE.format(model=old): _TEMPLATE.format(model=new) for old, new in names.items()
    }
    return Shapes(
        {key: _tidied(schema, renamed) for key, schema in (made | others).items()},
        {names[name]: _tidied(components[name], renamed) for name in sorted(components)},
    )


def _made(
    shapes: Iterable[tuple[int, JsonSchemaMode, Any]], generator: type[GenerateJsonSchema]
) -> tuple[_Named, dict[str, Document]]:
    inputs = [(key, mode, TypeAdapter(shape)) for key, mode, shape in shapes]
    made, defined = TypeAdapter.json_schemas(
        inputs, ref_template=_TEMPLATE, schema_generator=generator
    )
    return {key: dict(schema) for key, schema in made.items()}, defined.get("$defs", {})


def _shapes(
    operations: Sequence[AnyOperation], shown: Sequence[Any]
) -> Iterator[tuple[Any, JsonSchemaMode]]:
    for shape in shown:
        yield shape, "serialization"
    for one in operations:
        for shape in one.body.contents.values():
            yield shape, "validation"
        for answer in one.answers:
            if answer.shape is not None:
                yield answer.shape, "serialization"


def _public(name: str) -> str:
    if name.endswith("Body"):
        return name.removesuffix("Body") + "Request"
    return name.removesuffix("Shown")


def _tidied(node: Any, renamed: Mapping[str, str]) -> Any:
    """A schema with public names and without the titles that are made of members' names."""
    if isinstance(node, list):
        return [_tidied(one, renamed) for one in node]
    if not isinstance(node, dict):
        return node
    tidied: Document = {}
    for name, value in node.items():
        if name == "title" and isinstance(value, str):
            continue
        if name == "$ref":
            tidied[name] = renamed.get(value, value)
        elif name in ("properties", "$defs"):
            tidied[name] = {key: _tidied(inner, renamed) for key, inner in value.items()}
        elif name in ("example", "examples", "default", "enum", "const"):
            tidied[name] = value
        else:
            tidied[name] = _tidied(value, renamed)
    return tidied
