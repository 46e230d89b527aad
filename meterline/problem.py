"""Problems: the closed list of errors that the outside sees (RFC 9457; contract section 7).

Clients branch on `status` and `type`; both are stable. `detail` is for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from meterline.limits import PROBLEM_ERRORS_MAX

MEDIA_TYPE: Final = "application/problem+json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ProblemType(Enum):
    """Name, HTTP status and title of every problem. The URI is `urn:meterline:problem:<name>`."""

    BAD_REQUEST = ("bad-request", 400, "Bad request")
    INVALID_EVENT = ("invalid-event", 400, "Invalid event")
    UNSUPPORTED_CONTENT_TYPE = ("unsupported-content-type", 400, "Unsupported content type")
    UNAUTHENTICATED = ("unauthenticated", 401, "Unauthenticated")
    FORBIDDEN = ("forbidden", 403, "Forbidden")
    NOT_FOUND = ("not-found", 404, "Not found")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "Method not allowed")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "Not acceptable")
    CONFLICT = ("conflict", 409, "Conflict")
    BODY_TOO_LARGE = ("body-too-large", 413, "Body too large")
    RATE_LIMITED = ("rate-limited", 429, "Too many requests")
    INTERNAL = ("internal", 500, "Internal error")
    UNAVAILABLE = ("unavailable", 503, "Unavailable")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title

    @property
    def uri(self) -> str:
        """The stable `type` member."""
        return f"urn:meterline:problem:{self.slug}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where (`field`, `source`, and the event's place in a batch), why, by
    which rule.
    """

    field: str
    reason: str
    rule: str = ""
    source: str = "body"  # body, path, query, header
    index: int | None = None  # place of the event in the batch, from 0

    def members(self) -> dict[str, object]:
        """An entry of `invalid_parameters`."""
        entry: dict[str, object] = {
            "field": self.field,
            "reason": self.reason,
            "source": self.source,
        }
        if self.rule:
            entry["rule"] = self.rule
        if self.index is not None:
            entry["index"] = self.index
        return entry


class Problem(Exception):
    """An error that the caller is told. `retry_after_s` becomes the `Retry-After` header; `headers`
    go with the answer as they are.
    """

    # Not a frozen dataclass: Python itself sets attributes of an exception that is raised.
    def __init__(
        self,
        type_: ProblemType,
        detail: str,
        faults: tuple[Fault, ...] = (),
        retry_after_s: int | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        super().__init__(detail)
        self.type = type_
        self.detail = detail
        self.faults = faults
        self.retry_after_s = retry_after_s
        self.headers = headers

    def __str__(self) -> str:
        return f"{self.type.slug}: {self.detail}"

    def members(self, instance: str) -> dict[str, object]:
        """The problem document; `instance` identifies the request, `urn:request:<id>`."""
        document: dict[str, object] = {
            "type": self.type.uri,
            "title": self.type.title,
            "status": self.type.status,
            "detail": self.detail,
            "instance": instance,
        }
        if self.faults:
            document["invalid_parameters"] = [f.members() for f in self.faults[:PROBLEM_ERRORS_MAX]]
        return document


def not_found(what: str, name: str) -> Problem:
    """404 for a resource that is not there."""
    return Problem(ProblemType.NOT_FOUND, f"There is no {what} {name!r} here.")


def conflict(detail: str) -> Problem:
    """409 for what the state of things does not allow; the detail says what to do."""
    return Problem(ProblemType.CONFLICT, detail)


def invalid(*faults: Fault) -> Problem:
    """400 that names every fault; the detail repeats the first, for people."""
    first = faults[0]
    where = f"event {first.index}: " if first.index is not None else ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    detail = f"{where}{first.field}: {first.reason}{more}"
    return Problem(ProblemType.BAD_REQUEST, detail, faults)
