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
        "bytes of a request with events, compressed and uncompressed (`body_bytes_max`)",
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
    ("nesting depth of an event", f"{limits.JSON_DEPTH_MAX}", ProblemType.INVALID_EVENT),
    (
        "bytes of any other body",
        f"{limits.CONTROL_BODY_BYTES_MAX // MIB} MiB",
        ProblemType.BODY_TOO_LARGE,
    ),
    (
        "seconds to receive a body",
        f"{limits.BODY_READ_TIMEOUT_S}",
        ProblemType.BAD_REQUEST,
    ),
    ("entries of a page", f"{limits.PAGE_SIZE_MAX}", ProblemType.BAD_REQUEST),
    ("rows of a usage answer", f"{limits.QUERY_ROWS_MAX:,}", ProblemType.BAD_REQUEST),
    (
        "usage answers of over about 2,000 rows sent at the same time; others wait a minute",
        f"{limits.LARGE_ANSWERS_MAX}, per namespace {limits.LARGE_ANSWERS_OF_NAMESPACE_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    (
        f"usage queries at the same time; others wait {limits.QUERY_WAIT_S} seconds",
        "{}, per namespace {}, per key {}".format(*limits.QUERIES_AT_ONCE),
        ProblemType.RATE_LIMITED,
    ),
    (
        f"searches (events, values) at the same time; others wait {limits.QUERY_WAIT_S} seconds",
        "{}, per namespace {}".format(*limits.SEARCHES_AT_ONCE),
        ProblemType.RATE_LIMITED,
    ),
    (
        f"previews and comparisons at the same time; others wait {limits.PREVIEW_WAIT_S} seconds",
        "{}, per namespace {}".format(*limits.PREVIEWS_AT_ONCE),
        ProblemType.RATE_LIMITED,
    ),
    (
        "seconds until a usage query has its first row; memory of the usage store for it",
        f"{limits.USAGE_READ_S_MAX}; {limits.USAGE_READ_BYTES_MAX // MIB} MiB",
        ProblemType.BAD_REQUEST,
    ),
    ("windows of a usage answer", f"{limits.QUERY_WINDOWS_MAX:,}", ProblemType.BAD_REQUEST),
    ("dimensions to group by", f"{limits.QUERY_GROUP_BY_MAX}", ProblemType.BAD_REQUEST),
    ("dimensions to filter by", f"{limits.QUERY_FILTERS_MAX}", ProblemType.BAD_REQUEST),
    ("values of one `in`", f"{limits.QUERY_FILTER_VALUES_MAX}", ProblemType.BAD_REQUEST),
    (
        "dimensions of a meter; its labels",
        f"{limits.DIMENSIONS_MAX}; {limits.LABELS_MAX}",
        ProblemType.BAD_REQUEST,
    ),
    ("subjects of one upsert", f"{limits.SUBJECTS_UPSERT_MAX:,}", ProblemType.BAD_REQUEST),
    (
        "meters per namespace (setting `meters_max`)",
        f"{limits.METERS_MAX:,}, up to {limits.METERS_SET_MAX:,}",
        ProblemType.CONFLICT,
    ),
    ("reports per namespace", f"{limits.REPORTS_MAX:,}", ProblemType.CONFLICT),
    (
        "changes of meters per namespace and minute",
        f"{limits.METER_CHANGES_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    (
        "pending revisions of a meter; active revisions",
        f"{limits.METER_PROPOSALS_MAX}; {limits.METER_TIMELINE_MAX}",
        ProblemType.CONFLICT,
    ),
    (
        "days of a preview; events it reads",
        f"{limits.PREVIEW_DAYS_MAX}; {limits.PREVIEW_EVENTS_MAX:,}",
        ProblemType.BAD_REQUEST,
    ),
    (
        "requests without a valid key per address and minute (IPv6: per /64)",
        f"{limits.STRANGER_REQUESTS_MAX:,}",
        ProblemType.RATE_LIMITED,
    ),
    (
        "sign-ins with a wrong key per address and minute (IPv6: per /64)",
        f"{limits.SIGN_IN_REFUSALS_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    (
        "test deliveries per report and minute",
        f"{limits.TRIALS_MAX}",
        ProblemType.RATE_LIMITED,
    ),
    ("active replays per namespace", f"{limits.REPLAYS_RUNNING_MAX}", ProblemType.CONFLICT),
    ("subjects with a description", f"{limits.SUBJECTS_MAX:,}", ProblemType.CONFLICT),
    ("valid API keys per namespace", f"{limits.KEYS_MAX:,}", ProblemType.CONFLICT),
)


def rows() -> Iterator[str]:
    """The lines of the table: what is bounded, the bound, what is answered beyond it."""
    yield "| what | at most | answer beyond it |"
    yield "|---|---|---|"
    for what, most, kind in BOUNDS:
        yield f"| {what} | {most} | {kind.status} {kind.slug} |"


def made(page: str) -> str:
    """The page with the table as the limits have it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
