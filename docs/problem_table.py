"""The table of problems in docs/api.md, made from the closed list of the product.

`python -m docs.problem_table` makes it anew; tests/unit/test_docs.py fails where it differs, and
where a problem has no page in docs/problems or its page another form.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from meterline.problem import ProblemType

PAGE: Final = Path(__file__).with_name("api.md")
FOLDER: Final = Path(__file__).with_name("problems")
NAME: Final = "problems"
HEADINGS: Final = ("When", "What a client does", "In v3", "In v1")
"""Those of each problem's page, in this order."""

WHEN: Final[Mapping[ProblemType, str]] = {
    ProblemType.BAD_REQUEST: "something about a request is wrong; `invalid_parameters` says what",
    ProblemType.INVALID_EVENT: "an event of the request is wrong; nothing of the request is in",
    ProblemType.UNSUPPORTED_CONTENT_TYPE: "the body is not of a type that is taken here",
    ProblemType.UNAUTHENTICATED: "no API key, or one that is not good (any more)",
    ProblemType.FORBIDDEN: "the key lacks the scope of the operation; mode `none`: a foreign host",
    ProblemType.NOT_FOUND: "there is no such thing, or nothing at this path",
    ProblemType.METHOD_NOT_ALLOWED: "`Allow` lists the methods of this path",
    ProblemType.NOT_ACCEPTABLE: "`Accept` takes neither JSON nor CSV",
    ProblemType.CONFLICT: "it does not go with what is there: a key is taken, a meter is in use",
    ProblemType.BODY_TOO_LARGE: "too many bytes or events in one request",
    ProblemType.RATE_LIMITED: "the caller's plan allows no more for now",
    ProblemType.INTERNAL: "a fault of the server; its log has the instance",
    ProblemType.UNAVAILABLE: "something that is needed does not answer now",
}
RETRY: Final[Mapping[ProblemType, str]] = {
    ProblemType.BAD_REQUEST: "no: change the request",
    ProblemType.INVALID_EVENT: "no: change the event",
    ProblemType.UNSUPPORTED_CONTENT_TYPE: "no: change the header",
    ProblemType.UNAUTHENTICATED: "no: use another key",
    ProblemType.FORBIDDEN: "no: use another key, or set what `detail` says",
    ProblemType.NOT_FOUND: "no",
    ProblemType.METHOD_NOT_ALLOWED: "no",
    ProblemType.NOT_ACCEPTABLE: "no: change the header",
    ProblemType.CONFLICT: "no: look first",
    ProblemType.BODY_TOO_LARGE: "no: send less",
    ProblemType.RATE_LIMITED: "after `Retry-After`",
    ProblemType.INTERNAL: "yes, with growing pauses",
    ProblemType.UNAVAILABLE: "after `Retry-After`, with growing pauses",
}


def rows() -> Iterator[str]:
    """The lines of the table: URI with its page, status, when, whether to try again."""
    yield "| type | status | when | try again? |"
    yield "|---|---|---|---|"
    for kind in ProblemType:
        link = f"[`{kind.uri}`]({FOLDER.name}/{kind.slug}.md)"
        yield f"| {link} | {kind.status} | {WHEN[kind]} | {RETRY[kind]} |"


def made(page: str) -> str:
    """The page with the table as the list has it."""
    return replaced(page, NAME, rows())


def beginning(kind: ProblemType) -> str:
    """How the page of a problem begins."""
    return (
        f"# {kind.title}\n\n"
        "| type | status | try again? |\n|---|---|---|\n"
        f"| `{kind.uri}` | {kind.status} | {RETRY[kind]} |\n\n"
    )


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
