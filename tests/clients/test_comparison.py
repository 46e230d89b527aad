"""That what breaks clients is refused, and what does not is let through: on the real document."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.openapi.baseline import DIGESTS, DOCUMENTS, digests
from clients.openapi.comparison import RELEASED, breaks
from clients.openapi.tools import HERE

Document = dict[str, Any]
Change = Callable[[Document], object]
METERS = "/api/v3/metering/meters"


def schema(document: Document, name: str) -> Document:
    found: Document = document["components"]["schemas"][name]
    return found


def drop(document: Document, name: str, member: str) -> None:
    """Take a member away, also where it is required."""
    changed = schema(document, name)
    del changed["properties"][member]
    changed["required"] = [one for one in changed["required"] if one != member]


def operation(document: Document, method: str, path: str = METERS) -> Document:
    found: Document = document["paths"][path][method]
    return found


def choices(document: Document, name: str, member: str) -> list[str]:
    found: list[str] = schema(document, name)["properties"][member]["enum"]
    return found


def rename(document: Document, old: str, new: str) -> None:
    text = json.dumps(document).replace(f'schemas/{old}"', f'schemas/{new}"')
    document |= json.loads(text)
    document["components"]["schemas"][new] = document["components"]["schemas"].pop(old)


def require(document: Document) -> None:
    changed = schema(document, "MeterRequest")
    changed["properties"]["owner"] = {"type": "string"}
    changed["required"].append("owner")


def add(document: Document, name: str) -> None:
    schema(document, name)["properties"]["owner"] = {"type": "string"}


BREAKING: dict[str, Change] = {
    "an operation is gone": lambda d: d["paths"][f"{METERS}/{{meterId}}"].pop("delete"),
    "a path is gone": lambda d: d["paths"].pop(METERS),
    "an operation has another id": lambda d: operation(d, "post").update(operationId="make-meter"),
    "a required member of an answer is gone": lambda d: drop(d, "Meter", "updated_at"),
    "an optional member of an answer is gone": lambda d: drop(d, "Meter", "description"),
    "a member of an answer may be missing": lambda d: schema(d, "Meter")["required"].remove("key"),
    "a member of an answer has another type": lambda d: schema(d, "Meter")["properties"].update(
        name={"type": "integer"}
    ),
    "a request needs more": require,
    "a request may say less": lambda d: drop(d, "MeterRequest", "description"),
    "a request has fewer choices": lambda d: schema(d, "Aggregation")["enum"].remove("latest"),
    "an answer has another status": lambda d: operation(d, "post")["responses"].update(
        {"200": operation(d, "post")["responses"].pop("201")}
    ),
    "a parameter is gone": lambda d: operation(d, "get")["parameters"].pop(),
    "a filter has fewer operators": lambda d: schema(d, "TextFilter")["properties"].pop("neq"),
    "a delivery says less": lambda d: drop(d, "ReportMessage", "timestamp"),
    "a type has another name": lambda d: rename(d, "CursorMeta", "PlacesMeta"),
}
HARMLESS: dict[str, Change] = {
    "nothing": Document.copy,
    "words": lambda d: operation(d, "post").update(description="Other words."),
    "a request may say more": lambda d: add(d, "MeterRequest"),
    "an answer says more": lambda d: add(d, "Meter"),
    "a delivery says more": lambda d: add(d, "ReportMessage"),
    "there is one more operation": lambda d: d["paths"].update(
        {"/more": {"delete": {"operationId": "more", "responses": {"204": {"description": "."}}}}}
    ),
    "there is one more problem": lambda d: schema(d, "Problem")["properties"]["type"][
        "enum"
    ].append("urn:meterline:problem:new"),
}


@pytest.fixture(scope="module")
def document() -> Document:
    read: Document = json.loads((HERE / "v3.json").read_text(encoding="utf-8"))
    return read


def said(document: Document, change: Change, folder: Path) -> str:
    changed = copy.deepcopy(document)
    change(changed)
    return breaks(document, changed, folder)


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_is_refused(name: str, document: Document, tmp_path: Path) -> None:
    assert said(document, BREAKING[name], tmp_path)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_break_is_let_through(name: str, document: Document, tmp_path: Path) -> None:
    assert said(document, HARMLESS[name], tmp_path) == ""


def test_the_released_documents_are_those_that_were_released(tmp_path: Path) -> None:
    assert DIGESTS.read_text(encoding="utf-8") == digests()
    for name in DOCUMENTS:
        (tmp_path / name).write_bytes((RELEASED / name).read_bytes())
    assert DIGESTS.read_text(encoding="utf-8") == digests(tmp_path)
    (tmp_path / DOCUMENTS[0]).write_bytes(b"{}")
    assert DIGESTS.read_text(encoding="utf-8") != digests(tmp_path), "a change of one is noticed"
