"""The questions of the journey, in each form that the API takes, and how to read its answers."""

import csv
import io
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.journey.client import Answer, Server
from tests.journey.oracle import DEFINITIONS, Asked, Row

NEW_YORK = "America/New_York"
V1_WINDOWS = {"PT1M": "MINUTE", "PT1H": "HOUR", "P1D": "DAY", "P1M": "MONTH"}
ROUTE = ("origin", "dest")
ALL = ("2013-01-01T00:00:00Z", "2014-02-01T00:00:00Z")
JANUARY = ("2013-01-01T00:00:00Z", "2013-02-01T00:00:00Z")

Figure = tuple[str, str, tuple[str, ...], str]
"""Start, end, groups and value of a row: what every form of an answer has."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of which version of the API, and in which form it should answer."""

    asked: Asked
    version: str = "v3"
    media: str = "application/json"

    def put_to(self, server: Server) -> Answer:
        """The answer, which must be 200 and of the form asked for."""
        accept = {"Accept": self.media}
        if self.version == "v3":
            path = f"/api/v3/metering/meters/{self.asked.meter}/query"
            answer = server.ask("POST", path, _v3_body(self.asked), accept)
        else:
            path = f"/api/v1/meters/{self.asked.meter}/query?{_v1_query(self.asked)}"
            answer = server.ask("GET", path, headers=accept)
        assert answer.status == 200, f"{self}: {answer.status} {answer.body!r}"
        assert answer.headers["content-type"].startswith(self.media)
        return answer

    def figures(self, body: bytes) -> list[Figure]:
        """What the body of an answer says, in its order."""
        if self.media == "text/csv":
            return self._figures_in_csv(body)
        # Numbers are read as text: a float would hide what the last digits are.
        document = json.loads(body, parse_int=str, parse_float=str)
        if self.version == "v3":
            return [(row.start, row.end, row.groups, row.value) for row in self.rows(body)]
        return [_v1_figure(self.asked, entry) for entry in document["data"]]

    def rows(self, body: bytes) -> list[Row]:
        """All that an answer of v3 in JSON says."""
        return [_v3_row(self.asked, entry) for entry in json.loads(body)["data"]]

    def _figures_in_csv(self, body: bytes) -> list[Figure]:
        start, end = ("from", "to") if self.version == "v3" else ("window_start", "window_end")
        lines = list(csv.DictReader(io.StringIO(body.decode(), newline=""), strict=True))
        keys = self.asked.keys
        return [
            (line[start], line[end], tuple(line[key] for key in keys), self._exact(line["value"]))
            for line in lines
        ]

    def _exact(self, value: str) -> str:
        """A value of a table as JSON has it: those of v1 have six decimals, as the peer's."""
        if self.version == "v3":
            return value
        whole, _, decimals = value.partition(".")
        assert len(decimals) == 6, value
        return f"{whole}.{decimals}".rstrip("0").removesuffix(".")


def _v3_body(asked: Asked) -> dict[str, object]:
    given = {
        "from": asked.start,
        "to": asked.end,
        "granularity": asked.window,
        "time_zone": asked.zone,
        "group_by_dimensions": list(asked.keys),
    }
    return {name: value for name, value in given.items() if value is not None}


def _v1_query(asked: Asked) -> str:
    given = {
        "from": asked.start,
        "to": asked.end,
        "windowSize": V1_WINDOWS[asked.window] if asked.window else None,
        "windowTimeZone": asked.zone,
    }
    named = [(name, value) for name, value in given.items() if value is not None]
    return urlencode([*named, *(("groupBy", key) for key in asked.keys)])


def _v3_row(asked: Asked, entry: Any) -> Row:
    groups = entry["dimensions"]
    assert groups.keys() == set(asked.keys)
    return Row(
        entry["from"],
        entry["to"],
        tuple(groups[key] for key in asked.keys),
        entry["value"],
        entry["counted"],
        entry["rejected"],
    )


def _v1_figure(asked: Asked, entry: Any) -> Figure:
    groups = entry["groupBy"] | {"subject": entry["subject"]}
    assert ("subject" in asked.keys) == (entry["subject"] is not None)
    keys = tuple(groups[key] for key in asked.keys)
    return entry["windowStart"], entry["windowEnd"], keys, entry["value"]


def _of_every_meter() -> list[Question]:
    """Per carrier in total, per day and per month, in UTC and where the clock changes."""
    return [
        Question(asked.of(meter))
        for meter in DEFINITIONS
        for asked in (
            Asked("", *ALL),
            Asked("", *ALL, "P1D"),
            Asked("", *ALL, "P1M"),
            Asked("", *ALL, "P1D", NEW_YORK),
            Asked("", *ALL, "P1M", NEW_YORK),
        )
    ]


QUESTIONS: list[Question] = [
    *_of_every_meter(),
    # by route
    Question(Asked("distance", *ALL, keys=ROUTE)),
    Question(Asked("distance", *ALL, "P1M", NEW_YORK, ("subject", *ROUTE))),
    Question(Asked("flights", *ALL, "P1M", keys=("dest",))),
    # by nothing, and with open ends
    Question(Asked("distance", keys=())),
    Question(Asked("air_time", window="P1M", keys=())),
    Question(Asked("aircraft", keys=("subject",))),
    # hours around both changes of the clock
    Question(Asked("flights", "2013-03-09T05:00:00Z", "2013-03-12T04:00:00Z", "PT1H", NEW_YORK)),
    Question(
        Asked("air_time_avg", "2013-11-02T04:00:00Z", "2013-11-05T05:00:00Z", "PT1H", NEW_YORK)
    ),
    # ends within a minute, exact to the millisecond
    Question(Asked("distance", "2013-07-01T12:00:00.005Z", "2013-07-01T14:00:00.031Z")),
    Question(Asked("aircraft", "2013-07-01T12:00:00.005Z", "2013-07-01T12:00:00.048Z")),
    # other forms
    Question(Asked("distance", *ALL, "P1M", keys=("subject", *ROUTE)), media="text/csv"),
    Question(Asked("air_time_avg", *ALL, "P1M", NEW_YORK), media="text/csv"),
    Question(Asked("air_time_avg", *ALL, "P1D", NEW_YORK), "v1"),
    Question(Asked("distance", *ALL, "P1M", keys=("subject", *ROUTE)), "v1"),
    Question(Asked("aircraft", *ALL), "v1"),
    Question(Asked("arr_delay_min", *ALL, "P1M", NEW_YORK), "v1", "text/csv"),
]

# Asked again when nothing may have changed: every meter, every event.
AGAIN: list[Question] = [
    question
    for question in QUESTIONS
    if question.asked.window in (None, "P1M") and question.asked.zone == "UTC"
]
