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
    ProblemType.BAD_REQUEST: "the request is invalid; `invalid_parameters` lists what is wrong",
    ProblemType.INVALID_EVENT: "an event is invalid; no event of the request was stored",
    ProblemType.UNSUPPORTED_CONTENT_TYPE: "this operation does not accept this `Content-Type`",
    ProblemType.UNAUTHENTICATED: "no API key, or an unknown, expired or revoked one",
    ProblemType.FORBIDDEN: "the key lacks the scope; in mode `none`: wrong host or origin",
    ProblemType.NOT_FOUND: "the resource or the path does not exist",
    ProblemType.METHOD_NOT_ALLOWED: "not a method of this path; `Allow` lists its methods",
    ProblemType.NOT_ACCEPTABLE: "`Accept` allows neither JSON nor CSV",
    ProblemType.CONFLICT: "it conflicts with existing data: a key is taken, a meter is in use",
    ProblemType.BODY_TOO_LARGE: "too many bytes or events in one request",
    ProblemType.RATE_LIMITED: "the caller exceeded a rate limit",
    ProblemType.INTERNAL: "an error of the server; its log has the `instance`",
    ProblemType.UNAVAILABLE: "a store that is needed did not respond in time",
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
    ProblemType.CONFLICT: "no: check what exists",
    ProblemType.BODY_TOO_LARGE: "no: send less",
    ProblemType.RATE_LIMITED: "after `Retry-After`",
    ProblemType.INTERNAL: "yes, with backoff",
    ProblemType.UNAVAILABLE: "after `Retry-After`, with backoff",
}


def rows() -> Iterator[str]:
    """The lines of the table: URI with its page, status, when, whether to try again."""
    yield "| type | status | when | retry? |"
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
        "| type | status | retry? |\n|---|---|---|\n"
        f"| `{kind.uri}` | {kind.status} | {RETRY[kind]} |\n\n"
    )


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
