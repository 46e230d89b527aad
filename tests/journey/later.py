"""Meters of tests that come after the flights. They are made before them: one that is made
afterwards is filled in over the whole year first, as `LATE_METER` is.
"""

from typing import Any, Final

REDRIVEN: Final[dict[str, Any]] = {
    "key": "redriven",
    "name": "Redriven",
    "aggregation": "sum",
    "event_type": "redriven",
    "value_property": "$.value",
    "dimensions": {"subject_too": "$.subject"},
}
LISTED: Final[dict[str, Any]] = {
    "key": "listed",
    "name": "Listed",
    "aggregation": "sum",
    "event_type": "listed",
    "value_property": "$.value",
    "dimensions": {"colour": "$.colour"},
}
FROM_THE_INBOX: Final[dict[str, Any]] = {
    "key": "inbox",
    "name": "Inbox",
    "aggregation": "sum",
    "event_type": "from-the-inbox",
    "value_property": "$.value",
}
LATER: Final = (REDRIVEN, LISTED, FROM_THE_INBOX)
