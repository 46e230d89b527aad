"""The forms in which tools read the document."""

from typing import Any

from clients.openapi.forms import for_comparison, for_go, for_typescript

EVENT = {
    "type": "object",
    "properties": {"data": {"anyOf": [{"type": "object"}, {"type": "null"}]}},
    "propertyNames": {"pattern": "^[a-z]+$"},
    "additionalProperties": {"type": "string"},
    "examples": [{"properties": {"additionalProperties": {"a": 1}}, "propertyNames": 1}],
}
TEXT = {"type": "object", "properties": {"eq": {"type": "string"}, "neq": {"type": "string"}}}
FILTER = {"type": "object", "properties": {"key": {"$ref": "#/components/schemas/Text"}}}
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {
            "/things": {
                "get": {
                    "operationId": "list-things",
                    "parameters": [
                        {
                            "name": "filter",
                            "in": "query",
                            "style": "deepObject",
                            "schema": {"$ref": "#/components/schemas/Filter"},
                        },
                        {"name": "sort", "in": "query", "schema": {"type": "string"}},
                    ],
                    "responses": {
                        "200": {"description": "Things.", "headers": {"X": {}}},
                        "400": {"$ref": "#/components/responses/Bad"},
                        "404": {"$ref": "#/components/responses/Bad"},
                    },
                }
            }
        },
        "webhooks": {
            "sent": {
                "post": {
                    "operationId": "receive",
                    "requestBody": {"content": {"application/json": {"schema": EVENT}}},
                    "responses": {"200": {"description": "Taken."}},
                }
            }
        },
        "components": {
            "headers": {"X": {}},
            "responses": {"Bad": {"description": "Bad.", "headers": {"X": {}}, "content": PROBLEM}},
            "schemas": {"Event": EVENT, "Text": TEXT, "Filter": FILTER, "Problem": TEXT},
        },
    }


def test_the_given_document_stays_as_it_is() -> None:
    given = document()
    for form in (for_typescript, for_go, for_comparison):
        form(given)
    assert given == document()


def test_others_of_an_open_object_are_of_any_type() -> None:
    for form in (for_typescript, for_go):
        event = form(document())["components"]["schemas"]["Event"]
        assert event["additionalProperties"] is True
        assert "propertyNames" not in event
        assert event["examples"] == EVENT["examples"], "data is no schema"


def test_go_has_one_problem_and_no_webhooks() -> None:
    made = for_go(document())
    assert made.keys() == {"openapi", "info", "paths", "components"}
    assert made["components"].keys() == {"schemas"}
    assert made["paths"]["/things"]["get"]["responses"] == {
        "200": {"description": "Things."},
        "default": {"description": "A problem.", "content": PROBLEM},
    }


def test_go_has_no_null_and_no_pointer_where_an_absent_map_will_do() -> None:
    data = for_go(document())["components"]["schemas"]["Event"]["properties"]["data"]
    assert data["type"] == "object"
    assert "anyOf" not in data
    assert data["x-go-type-skip-optional-pointer"] is True


def test_members_of_a_deep_object_are_compared_one_by_one() -> None:
    parameters = for_comparison(document())["paths"]["/things"]["get"]["parameters"]
    assert [one["name"] for one in parameters] == ["filter[key][eq]", "filter[key][neq]", "sort"]
    assert all(one["in"] == "query" for one in parameters)


def test_a_webhook_is_compared_as_what_clients_read() -> None:
    made = for_comparison(document())
    assert "webhooks" not in made
    read = made["paths"]["/webhooks/sent"]["get"]["responses"]["200"]["content"]
    assert read["application/json"]["schema"] == EVENT
