"""What was answered, and what of it must count: kept beside the server, from the answers alone."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from meterline.problem import ProblemType
from tests.conformance.door.oracle import Expected, Known, Number, expected, instant
from tests.conformance.door.posts import RESENT_AFTER, Post, Series

PROBLEM: Final = "application/problem+json"
FAULTS_MAX: Final = 100
"""Faults of one answer, as docs/api.md has it."""
ANSWER_BYTES_MAX: Final = 256 * 1024
"""Of a problem: 100 faults of a few hundred letters, twice in v1."""
STATUSES: Final = {kind.uri: (kind.status, kind.title) for kind in ProblemType}
SOURCES: Final = frozenset({"body", "header", "path", "query"})
_STANDARD: Final = {"type", "title", "status", "detail", "instance"}


class Answer(NamedTuple):
    """What came back. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wrong(Exception):
    """The answer to a request is not the one that it must be."""


@dataclass(slots=True)
class Account:
    """What the server's account must say at the end."""

    received: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    of_type: Counter[str] = field(default_factory=Counter)
    """New events, by type."""


class Ledger:
    """Takes each answer; knows the account that follows from them."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._first: dict[bytes, int] = {}  # identity to the request that brought it first
        self.account = Account()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Requests by their kind and what was answered."""

    def take(self, number: int, post: Post, answer: Answer | None) -> None:
        """Raise `Wrong` where the answer is not the right one. None: nobody waited for it."""
        must = expected(post)
        if answer is None:
            self.outcomes[post.kind, "gone"] += 1
            return
        if must.problems:
            self.outcomes[post.kind, check_problem(post, answer, must)] += 1
            return
        check_success(post, answer)
        self.outcomes[post.kind, "accepted"] += 1
        here: dict[bytes, Known] = {}
        for known in must.events:
            self._count(number, post, known, here)

    def _count(self, number: int, post: Post, known: Known, here: dict[bytes, Known]) -> None:
        """Judge an accepted event as the aggregator must. `here` came with it, in this order."""
        account = self.account
        account.received += 1
        key = hashlib.blake2b(repr((known.source, known.id)).encode(), digest_size=16).digest()
        first = self._first.setdefault(key, number)
        if first == number and key not in here:
            here[key] = known
            account.new += 1
            account.of_type[known.type] += 1
            return
        if first == number:
            earlier = here[key]
        else:
            # Nobody can know which of two comes first that are under way together.
            assert post.large or number - first >= RESENT_AFTER, f"{first} and {number} share an id"
            events = expected(self._series[first]).events
            earlier = next(
                one for one in events if (one.source, one.id) == (known.source, known.id)
            )
        if content(earlier) == content(known):
            account.duplicate += 1
        else:
            account.conflict += 1


def check_success(post: Post, answer: Answer) -> None:
    """An answer that says: all of it is durable."""
    must = 204 if post.path.startswith("/api/v1/") else 202
    if answer.status != must:
        raise Wrong(f"must be {must}")
    if answer.body:
        raise Wrong("a body where none is documented")
    if len(answer.headers.get("x-request-id", "")) != 26:  # a ULID
        raise Wrong("no X-Request-Id")


def check_problem(post: Post, answer: Answer, must: Expected) -> str:
    """The name of the problem that answers a request; everything about it is right."""
    if answer.headers.get("content-type") != PROBLEM:
        raise Wrong(f"content type must be {PROBLEM}")
    if len(answer.body) > ANSWER_BYTES_MAX:
        raise Wrong(f"the problem has {len(answer.body)} bytes, at most {ANSWER_BYTES_MAX}")
    document = json.loads(answer.body.decode())
    slug = check_standard(document, answer)
    if slug not in must.problems:
        raise Wrong(f"must be one of {sorted(must.problems)}")
    known = _STANDARD | {"invalid_parameters"}
    if post.path.startswith("/api/v1/"):
        known |= {"extensions"}
    if not document.keys() <= known:
        raise Wrong(f"unknown members: {sorted(document.keys() - known)}")
    faults = document.get("invalid_parameters", [])
    if len(faults) > FAULTS_MAX or (slug == "invalid-event" and not faults):
        raise Wrong(f"{len(faults)} faults, at least one and at most {FAULTS_MAX}")
    for fault in faults:
        check_fault(fault)
    return slug


def check_standard(document: Any, answer: Answer) -> str:
    """The members that every problem has (RFC 9457); the last part of its type."""
    kind = document.get("type")
    if STATUSES.get(kind) != (answer.status, document.get("title")):
        raise Wrong("type, title and status do not belong together")
    if document.get("status") != answer.status or not document.get("detail"):
        raise Wrong("status or detail is missing in the document")
    if document.get("instance") != f"urn:request:{answer.headers.get('x-request-id')}":
        raise Wrong("instance is not urn:request:<X-Request-Id>")
    return str(kind).removeprefix("urn:meterline:problem:")


def check_fault(fault: Any) -> None:
    """An entry of `invalid_parameters`."""
    named = {"field": str, "reason": str, "source": str, "rule": str, "index": int}
    if not {"field", "reason", "source"} <= fault.keys() <= named.keys():
        raise Wrong(f"members of a fault: {sorted(fault)}")
    if any(type(value) is not named[name] for name, value in fault.items()):
        raise Wrong(f"types of a fault: {fault}")
    if not fault["reason"] or fault["source"] not in SOURCES or fault.get("index", 0) < 0:
        raise Wrong(f"values of a fault: {fault}")


def content(known: Known) -> object:
    """What a copy of an event must repeat, in a form that compares equal where it does."""
    time = known.members.get("time")
    moment = None if time is None else instant(time)
    return known.type, known.members["subject"], moment, _value(known.members.get("data"))


def _value(value: Any) -> object:
    if type(value) is Number:
        try:
            return "number", Decimal(value).normalize()
        except InvalidOperation:
            return "number", value
    if type(value) is dict:
        return "object", {name: _value(inner) for name, inner in value.items()}
    if type(value) is list:
        return "array", [_value(inner) for inner in value]
    return type(value).__name__, value
