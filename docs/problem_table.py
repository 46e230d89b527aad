"""The table of problems in docs/api.md, made from the closed list of the product.

`python -m docs.problem_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from meterline.problem import ProblemType

PAGE: Final = Path(__file__).with_name("api.md")
NAME: Final = "problems"
WHEN: Final[Mapping[ProblemType, str]] = {
    ProblemType.BAD_REQUEST: "something about a request is wrong; `invalid_parameters` says what",
    ProblemType.INVALID_EVENT: "an event of the request is wrong; nothing of the request is in",
    ProblemType.UNSUPPORTED_CONTENT_TYPE: "the body is not of a type that is taken here",
    ProblemType.UNAUTHENTICATED: "reserved",
    ProblemType.FORBIDDEN: "reserved",
    ProblemType.NOT_FOUND: "there is no such thing, or nothing at this path",
    ProblemType.METHOD_NOT_ALLOWED: "`Allow` lists the methods of this path",
    ProblemType.NOT_ACCEPTABLE: "`Accept` takes neither JSON nor CSV",
    ProblemType.CONFLICT: "a key or slug is taken; a meter is in use, or of the settings file",
    ProblemType.BODY_TOO_LARGE: "too many bytes or events in one request",
    ProblemType.RATE_LIMITED: "reserved",
    ProblemType.INTERNAL: "a fault of the server; its log has the instance",
    ProblemType.UNAVAILABLE: "something that is needed does not answer now; try again",
}


def rows() -> Iterator[str]:
    """The lines of the table: URI, status, when."""
    yield "| type | status | when |"
    yield "|---|---|---|"
    for kind in ProblemType:
        yield f"| `{kind.uri}` | {kind.status} | {WHEN[kind]} |"


def made(page: str) -> str:
    """The page with the table as the list has it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
