"""The names that stand in paths."""

from collections.abc import Mapping
from typing import Final

from meterline.event import POSITION_PATTERN
from meterline.http.operation import PathName

_ULID: Final = "01M7ZMF4YA7D2SQ292V0W9JPT8"

METER: Final = PathName(
    "meter",
    "Id or key of a meter; an id wins over a key of the same spelling.",
    r"[A-Za-z0-9_]+",
    _ULID,
)
METER_NAMES: Final[Mapping[str, PathName]] = {"meterId": METER}
METER_REVISION_NAMES: Final[Mapping[str, PathName]] = {
    **METER_NAMES,
    "revision": PathName("meter revision", "Number of a revision.", "[0-9]{1,9}", "7"),
}
V1_METER_NAMES: Final[Mapping[str, PathName]] = {"meterIdOrSlug": METER}
REPORT: Final = PathName(
    "report",
    "Id or slug of a report; an id wins over a slug of the same spelling.",
    "[A-Za-z0-9_-]{1,64}",
    _ULID,
)
REPORT_NAMES: Final[Mapping[str, PathName]] = {"reportId": REPORT}
V1_REPORT_NAMES: Final[Mapping[str, PathName]] = {"reportIdOrSlug": REPORT}
REFUSAL: Final = PathName(
    "refusal", "Position of what was refused, as lists show it.", POSITION_PATTERN, "1.0.12.3"
)
REFUSAL_NAMES: Final[Mapping[str, PathName]] = {"refusalId": REFUSAL}
SUBJECT: Final = PathName(
    "subject",
    "Id or key of a subject; an id wins over a key of the same spelling.",
    r"[^\x00]+",
    "customer-1",
)
V1_SUBJECT_NAMES: Final[Mapping[str, PathName]] = {"subjectIdOrKey": SUBJECT}
SUBJECT_NAMES: Final[Mapping[str, PathName]] = {"subjectId": SUBJECT}
DIMENSION: Final = PathName(
    "dimension", "Name of a dimension of the meter.", r"[a-zA-Z_][0-9a-zA-Z_]*", "model"
)
GROUP_BY_KEY: Final = PathName(
    "group-by key", "Name of a group-by key of the meter.", r"[a-zA-Z_][0-9a-zA-Z_]*", "model"
)
