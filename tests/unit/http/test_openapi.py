"""The documents say what is served: valid, complete, with examples that hold."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import TypeAdapter

from control.openapi.published import as_json, as_yaml
from meterline.http.operation import Bound
from meterline.runtime.commands import documents

pytestmark = pytest.mark.standard  # both documents, whole

DECLARED = {"v3": documents.declared_v3(), "v1": documents.declared_v1()}
KEYWORDS = frozenset(
    [
        "$ref",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "items",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "format",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "contentMediaType",
        "contentSchema",
        "uniqueItems",
        "description",
        "default",
        "examples",
    ]
)
METHODS = frozenset({"get", "put", "post", "delete", "patch"})


@cache
def document(version: str) -> dict[str, Any]:
    """A document as it is published."""
    made = documents.v3(DECLARED["v3"]) if version == "v3" else documents.v1(DECLARED["v1"])
    published: dict[str, Any] = json.loads(as_json(made))
    return published


def operations(version: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document(version)["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def answers(version: str, operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its answers by status, those that are given by name too."""
    named = document(version)["components"]["responses"]
    return {
        status: named[one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one
        for status, one in operation["responses"].items()
    }


def validator(version: str, schema: dict[str, Any]) -> Draft202012Validator:
    """A validator of a schema of the document, which refers to others of it."""
    whole = {**schema, "components": document(version)["components"]}
    return Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("version", DECLARED)
def test_the_document_is_openapi_3_1(version: str) -> None:
    OpenAPIV31SpecValidator(document(version)).validate()


@pytest.mark.parametrize("version", DECLARED)
def test_every_operation_has_an_id_of_its_own(version: str) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(version)]
    assert sorted(ids) == sorted({one.operation.id for one in DECLARED[version]})
    assert len(ids) == len(set(ids)) == len(DECLARED[version])


@pytest.mark.parametrize("version", DECLARED)
def test_no_schema_uses_a_word_that_means_nothing(version: str) -> None:
    strays: set[str] = set()

    def look(schema: Any) -> None:
        if not isinstance(schema, dict):
            return
        strays.update(schema.keys() - KEYWORDS)
        for inner in schema.get("properties", {}).values():
            look(inner)
        for name in ("additionalProperties", "items", "not", "propertyNames"):
            look(schema.get(name))
        for name in ("anyOf", "oneOf", "allOf"):
            for inner in schema.get(name, []):
                look(inner)

    for schema in document(version)["components"]["schemas"].values():
        look(schema)
    for _, _, operation in operations(version):
        for parameter in operation.get("parameters", []):
            look(parameter["schema"])
    assert not strays


@pytest.mark.parametrize("version", DECLARED)
def test_no_two_shapes_share_a_name(version: str) -> None:
    named = document(version)["components"]["schemas"]
    assert not [name for name in named if "__" in name], "they were told apart by their modules"


@pytest.mark.parametrize("version", DECLARED)
def test_examples_are_what_they_are_examples_of(version: str) -> None:
    for _, _, operation in operations(version):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [one.get("content", {}) for one in answers(version, operation).values()]
        for content in contents:
            for media, held in content.items():
                assert "example" in held, f"{operation['operationId']}: {media} has no example"
                errors = [*validator(version, held["schema"]).iter_errors(held["example"])]
                assert not errors, f"{operation['operationId']}: {errors[0]}"


@pytest.mark.parametrize("one", [*DECLARED["v3"], *DECLARED["v1"]], ids=lambda it: it.operation.id)
def test_the_example_of_a_body_is_accepted(one: Bound) -> None:
    body = one.operation.body
    if body.model is None:
        assert not body.contents or body.example is not None
        return
    read = TypeAdapter(body.model).validate_json(json.dumps(body.example))
    assert read is not None


@pytest.mark.parametrize("version", DECLARED)
def test_success_and_every_problem_are_published(version: str) -> None:
    by_id = {one.operation.id: one.operation for one in DECLARED[version]}
    for _, method, operation in operations(version):
        declared = by_id[operation["operationId"]]
        assert method in METHODS
        statuses = {int(status) for status in operation["responses"]}
        assert {one.status for one in declared.answers} <= statuses
        assert {kind.status for kind in declared.every_problem} <= statuses
        for response in answers(version, operation).values():
            assert "X-Request-Id" in response["headers"]


@pytest.mark.parametrize("version", DECLARED)
def test_both_forms_say_the_same(version: str) -> None:
    made = documents.v3(DECLARED["v3"]) if version == "v3" else documents.v1(DECLARED["v1"])
    assert yaml.safe_load(as_yaml(made)) == document(version)


def test_the_message_to_receivers_is_published_as_it_is_sent() -> None:
    hook = document("v3")["webhooks"]["report.meter"]["post"]
    held = hook["requestBody"]["content"]["application/json"]
    assert not [*validator("v3", held["schema"]).iter_errors(held["example"])]
