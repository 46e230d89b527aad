"""The names that stand in paths: each means one kind of thing, in every operation."""

from collections.abc import Mapping
from typing import Final

from control.shapes.run import DELIVERY_PATTERN, RUN_PATTERN
from meterline.event import POSITION_PATTERN
from meterline.http.operation import PathName

_ULID: Final = "01M7ZMF4YA7D2SQ292V0W9JPT8"
_ID: Final = r"[0-9A-Za-z]{26}"
_DIMENSION: Final = r"[a-zA-Z_][0-9a-zA-Z_]*"
_METER: Final = PathName(
    "meter",
    "Id or key of a meter; an id wins over a key of the same spelling.",
    r"[A-Za-z0-9_]+",
    _ULID,
)
_REPORT: Final = PathName(
    "report",
    "Id or slug of a report; an id wins over a slug of the same spelling.",
    "[A-Za-z0-9_-]{1,64}",
    _ULID,
)
_SUBJECT: Final = PathName(
    "subject",
    "Id or key of a subject; an id wins over a key of the same spelling.",
    r"[^\x00]+",
    "customer-1",
)
PATH_NAMES: Final[Mapping[str, PathName]] = {
    "apiKeyId": PathName("API key", "Id of an API key.", _ID, _ULID),
    "deliveryId": PathName(
        "delivery", "Id of a delivery.", DELIVERY_PATTERN, "dlv_wbi3n6gx75sb6wfyj4ccl2bvjfrhrvyh"
    ),
    "dimension": PathName("dimension", "Name of a dimension of the meter.", _DIMENSION, "model"),
    "erasureId": PathName("erasure", "Id of an erasure.", _ID, _ULID),
    "groupByKey": PathName(
        "group-by key", "Name of a group-by key of the meter.", _DIMENSION, "model"
    ),
    "meterId": _METER,
    "meterIdOrSlug": _METER,
    "refusalId": PathName(
        "refusal", "Position of what was refused, as lists show it.", POSITION_PATTERN, "1.0.12.3"
    ),
    "replayId": PathName("replay", "Id of a replay.", _ID, _ULID),
    "reportId": _REPORT,
    "reportIdOrSlug": _REPORT,
    "revision": PathName("meter revision", "Number of a revision.", "[0-9]{1,9}", "7"),
    "runId": PathName("run", "Id of a run.", RUN_PATTERN, "run_cf6inwlmjqelmmezy2kklvx5tgtoar6l"),
    "subjectId": _SUBJECT,
    "subjectIdOrKey": _SUBJECT,
}
