"""Texts that no schema can forbid in its own words, put wherever a body or a query has a text: what
is no Unicode, what PostgreSQL cannot keep, and JSON that is none.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from meterline.access import Scope
from tests.conformance.cases import request
from tests.conformance.conftest import People
from tests.conformance.installation import Caller
from tests.openapi import Published, published

V3, V1 = published()
EVERY = {**V3.operations, **V1.operations}
TAKING = [name for name, one in EVERY.items() if one.body is not None]
INGEST = {"ingest-metering-events", "ingestEvents"}
# Members in which NUL is a letter as others: kept in JSON or in ClickHouse, or only compared.
FREE = {
    **dict.fromkeys(INGEST, "data"),
    **dict.fromkeys(("upsertSubject", "create-subject", "update-subject"), "metadata"),
    "query-meter": "filters",
    "queryMeterPost": "filterGroupBy",
    "redrive-refusal": "event.data",
}
# Operations whose example holds no text that could be another one.
WITHOUT_TEXT = {"rotate-api-key", "rotate-report-secret"}
BROKEN = {
    "nothing": b"",
    "white space": b" \n",
    "cut short": b'{"name": "x"',
    "two values": b"{} {}",
    "no JSON": b"name=x",
    "an array": b"[]",
    "a number": b"1e400",
    "null": b"null",
    "no UTF-8": b'{"name": "\xff"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "a surrogate": b'{"name": "\\ud800"}',
    "NaN": b'{"name": NaN}',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a long number": b'{"name": ' + b"1" * 100_000 + b"}",
    "many members": b"{" + b",".join([b'"a%d":1' % n for n in range(20_000)]) + b"}",
    "bytes": bytes(range(256)),
}


def with_a_text(value: Any, text: str) -> Iterator[Any]:
    """The value with this text in the place of each of its texts, one at a time."""
    if isinstance(value, str):
        yield text
    elif isinstance(value, dict):
        for name, inner in value.items():
            for changed in with_a_text(inner, text):
                yield {**value, name: changed}
            if isinstance(inner, dict) and all(isinstance(one, str) for one in inner.values()):
                yield {**value, name: {**inner, text: "x"}}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for changed in with_a_text(inner, text):
                yield [*value[:place], changed, *value[place + 1 :]]


def _member(body: Any, name: str) -> Any:
    """What a body has where any text may be."""
    found = body[0] if isinstance(body, list) else body
    for part in FREE.get(name, "").split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _who_may(people: People, one: Published) -> Caller:
    """Who has things of the names that are asked for; or who operates the installation."""
    return people.having[Scope.OPERATE] if one.scope == Scope.OPERATE else people.twin.owner


@pytest.mark.parametrize("name", TAKING)
def test_nul_and_halves_of_pairs_are_refused_in_every_text(people: People, name: str) -> None:
    one, names = EVERY[name], people.twin.by_id()
    assert one.body is not None
    media_type, example = one.body
    refusals = 0
    for text in ("a\x00b", "\ud800", "\x00"):
        for body in with_a_text(example, text):
            if "\0" in text and _member(body, name) != _member(example, name):
                continue
            raw = json.dumps(body).encode()
            answer = people.stranger.ask(one.method, one.path(names), raw, media_type)
            refused = (403,) if one.scope == Scope.OPERATE else (400, 404)
            assert answer.status in refused, f"{raw!r}: {answer.status} {answer.body!r}"
            answer = _who_may(people, one).ask(one.method, one.path(names), raw, media_type)
            assert answer.status == 400, f"{raw!r}: {answer.status} {answer.body!r}"
            refusals += 1
    assert bool(refusals) == (name not in WITHOUT_TEXT), "say which bodies have no text"


@pytest.mark.parametrize("name", TAKING)
def test_what_is_no_json_is_refused(people: People, name: str) -> None:
    one, names = EVERY[name], people.twin.by_id()
    assert one.body is not None
    for kind, raw in BROKEN.items():
        answer = _who_may(people, one).ask(one.method, one.path(names), raw, one.body[0])
        if kind == "an array" and answer.status < 300:
            assert name in (*INGEST, "upsertSubject")
        elif kind == "nothing" and one.body_optional:
            assert answer.status == 200, f"{kind}: {answer.status} {answer.body!r}"
        else:
            assert answer.status == 400, f"{kind}: {answer.status} {answer.body!r}"


@pytest.mark.parametrize("name", [name for name, one in EVERY.items() if one.parameters])
def test_nul_is_refused_in_every_query(people: People, name: str) -> None:
    one, names = EVERY[name], people.twin.by_id()
    method, path, body = request(one, names)
    path = path.partition("?")[0]
    for parameter in one.parameters:
        for query in (f"{parameter['name']}=%00", f"{parameter['name']}[x]=%00"):
            answer = people.twin.owner.ask(method, f"{path}?{query}", body)
            assert answer.status in (200, 400), answer.body
