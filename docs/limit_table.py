"""The table of bounds in docs/api.md, made from `meterline.limits`.

`python -m docs.limit_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from meterline import limits
from meterline.problem import ProblemType

PAGE: Final = Path(__file__).with_name("api.md")
NAME: Final = "bounds"
KIB: Final = 1024
MIB: Final = 1024 * 1024

BOUNDS: Final[tuple[tuple[str, str, ProblemType], ...]] = (
    (
        "bytes of a request with events, as sent and inflated (`body_bytes_max`)",
        f"{limits.BODY_BYTES_MAX // MIB} MiB",
        ProblemType.BODY_TOO_LARGE,
    ),
    (
        "events of a request (`batch_events_max`)",
        f"{limits.BATCH_EVENTS_MAX:,}",
        ProblemType.BODY_TOO_LARGE,
    ),
    (
        "bytes of an event (`event_bytes_max`)",
        f"{limits.EVENT_BYTES_MAX // KIB} KiB",
        ProblemType.INVALID_EVENT,
    ),
    (
        "characters of `id`, `source`, `type`, `subject`, each",
        f"{limits.ATTRIBUTE_CHARS_MAX:,}",
        ProblemType.INVALID_EVENT,
    ),
    ("nesting of an event", f"{limits.JSON_DEPTH_MAX}", ProblemType.INVALID_EVENT),
    (
        "bytes of any other body",
        f"{limits.CONTROL_BODY_BYTES_MAX // MIB} MiB",
        ProblemType.BODY_TOO_LARGE,
    ),
    (
        "seconds in which a body must end",
        f"{limits.BODY_READ_TIMEOUT_S}",
        ProblemType.BAD_REQUEST,
    ),
    ("entries of a page", f"{limits.PAGE_SIZE_MAX}", ProblemType.BAD_REQUEST),
    ("rows of an answer about usage", f"{limits.QUERY_ROWS_MAX:,}", ProblemType.BAD_REQUEST),
    (
        "answers of over about 1,000 rows sent at once; others wait a minute",
        f"{limits.LARGE_ANSWERS_MAX}, of a namespace {limits.LARGE_ANSWERS_OF_NAMESPACE_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    ("windows of it", f"{limits.QUERY_WINDOWS_MAX:,}", ProblemType.BAD_REQUEST),
    ("dimensions to group by", f"{limits.QUERY_GROUP_BY_MAX}", ProblemType.BAD_REQUEST),
    ("dimensions to filter by", f"{limits.QUERY_FILTERS_MAX}", ProblemType.BAD_REQUEST),
    ("values of one `in`", f"{limits.QUERY_FILTER_VALUES_MAX}", ProblemType.BAD_REQUEST),
    (
        "dimensions of a meter; its labels",
        f"{limits.DIMENSIONS_MAX}; {limits.LABELS_MAX}",
        ProblemType.BAD_REQUEST,
    ),
    ("subjects of one upsert", f"{limits.SUBJECTS_UPSERT_MAX:,}", ProblemType.BAD_REQUEST),
    ("meters of a namespace", f"{limits.METERS_MAX:,}", ProblemType.CONFLICT),
    ("reports of a namespace", f"{limits.REPORTS_MAX:,}", ProblemType.CONFLICT),
    (
        "changes of the meters of a namespace in a minute",
        f"{limits.METER_CHANGES_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    (
        "revisions of a meter that wait; that answer",
        f"{limits.METER_PROPOSALS_MAX}; {limits.METER_TIMELINE_MAX}",
        ProblemType.CONFLICT,
    ),
    (
        "days of a preview; events that it reads",
        f"{limits.PREVIEW_DAYS_MAX}; {limits.PREVIEW_EVENTS_MAX:,}",
        ProblemType.BAD_REQUEST,
    ),
    (
        "requests without a good key from one address in a minute (IPv6: one /64)",
        f"{limits.STRANGER_REQUESTS_MAX:,}",
        ProblemType.RATE_LIMITED,
    ),
    (
        "test deliveries of a report in a minute",
        f"{limits.TRIALS_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    ("replays of a namespace at once", f"{limits.REPLAYS_RUNNING_MAX}", ProblemType.CONFLICT),
    ("subjects that something is said of", f"{limits.SUBJECTS_MAX:,}", ProblemType.CONFLICT),
    ("API keys of a namespace that are good", f"{limits.KEYS_MAX:,}", ProblemType.CONFLICT),
)


def rows() -> Iterator[str]:
    """The lines of the table: what is bounded, the bound, what is answered beyond it."""
    yield "| what | at most | beyond it |"
    yield "|---|---|---|"
    for what, most, kind in BOUNDS:
        yield f"| {what} | {most} | {kind.status} {kind.slug} |"


def made(page: str) -> str:
    """The page with the table as the limits have it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
