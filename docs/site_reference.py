"""The page of the site that lists every operation of the API, from its OpenAPI document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "clients" / "openapi" / "v3.json"
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def reference() -> str:
    """The page, in Markdown: operations by tag, with their parameters, bodies and answers."""
    document = json.loads(DOCUMENT.read_text("utf-8"))
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield "# All operations\n"
    yield "Made from the OpenAPI document, which a server answers at `/api/openapi.yaml`."
    for tag in document["tags"]:
        yield f"\n## {tag['name']}\n\n{tag['description']}"
        for path, methods in document["paths"].items():
            for method in _METHODS:
                operation = methods.get(method, {})
                if tag["name"] in operation.get("tags", []):
                    shared = methods.get("parameters", [])
                    yield from _operation(f"{method.upper()} {path}", operation, shared, document)


def _operation(
    line: str, operation: dict[str, Any], shared: list[Any], document: dict[str, Any]
) -> Iterator[str]:
    yield f"\n### {operation['summary']}\n\n```\n{line}\n```\n\n{operation.get('description', '')}"
    parameters = [_found(one, document) for one in [*shared, *operation.get("parameters", [])]]
    if parameters:
        yield "\n| parameter | in | meaning |\n|---|---|---|"
        for one in parameters:
            name = f"`{one['name']}`" + (", required" if one.get("required") else "")
            yield f"| {name} | {one['in']} | {_cell(one.get('description', ''))} |"
    example = _example(_found(operation.get("requestBody", {}), document))
    if example is not None:
        yield f"\nA body:\n\n```json\n{example}\n```"
    yield "\n| status | answer |\n|---|---|"
    for status, one in operation["responses"].items():
        yield f"| {status} | {_cell(_found(one, document).get('description', ''))} |"


def _found(one: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in one:
        return one
    place: Any = document
    for part in one["$ref"].removeprefix("#/").split("/"):
        place = place[part]
    found: dict[str, Any] = place
    return found


def _example(body: dict[str, Any]) -> str | None:
    for content in body.get("content", {}).values():
        if "example" in content:
            return json.dumps(content["example"], indent=2, ensure_ascii=False)
        for one in content.get("examples", {}).values():
            return json.dumps(one["value"], indent=2, ensure_ascii=False)
    return None


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
