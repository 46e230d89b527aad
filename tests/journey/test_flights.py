"""A year's flights, counted: all answers equal what pandas computes from the same table."""

import json
from urllib.parse import quote

import pytest

from demo.flights import METERS
from meterline.meter import Aggregation
from tests.journey.journey import FLIGHTS_AGAIN, METERS_PATH, Journey
from tests.journey.oracle import ALL_FLIGHTS, DEFINITIONS, expected, table
from tests.journey.questions import AGAIN, QUESTIONS

PAGE = 100
COUNTED = [q for q in QUESTIONS if (q.version, q.media) == ("v3", "application/json")]


def test_the_table_and_the_meters_are_what_the_issue_says() -> None:
    flights = table()
    assert len(flights) == ALL_FLIGHTS
    assert flights["air_time"].isna().sum() == 9_430
    assert flights["tailnum"].isna().sum() == 2_512
    assert flights["time"].is_unique
    assert {meter["aggregation"] for meter in METERS} == {str(one) for one in Aggregation}


@pytest.mark.parametrize("meter", DEFINITIONS)
def test_every_answer_equals_pandas(journey: Journey, meter: str) -> None:
    questions = [question for question in QUESTIONS if question.asked.meter == meter]
    assert len(questions) >= 5
    for question in questions:
        rows = expected(question.asked)
        assert rows, question
        figures = [(row.start, row.end, row.groups, row.value) for row in rows]
        assert question.figures(journey.answers[question]) == figures, question


def test_every_event_is_either_counted_or_rejected(journey: Journey) -> None:
    for question in COUNTED:
        rows = question.rows(journey.answers[question])
        assert rows == expected(question.asked), question


def test_the_account_adds_up(journey: Journey) -> None:
    nothing = {"conflict": 0, "invalid": 0}
    first = {"received": ALL_FLIGHTS, "new": ALL_FLIGHTS, "duplicate": 0}
    assert journey.account_first == first | nothing
    received = ALL_FLIGHTS + FLIGHTS_AGAIN
    again = {"received": received, "new": ALL_FLIGHTS, "duplicate": FLIGHTS_AGAIN}
    assert journey.account_again == again | nothing


def test_the_same_flights_sent_again_change_nothing(journey: Journey) -> None:
    assert len(journey.answers_again) >= len(METERS)
    for question, body in journey.answers_again.items():
        assert body == journey.answers[question], question
    asked = {question.asked.meter for question in journey.answers_again}
    assert asked == {meter["key"] for meter in METERS}
    assert journey.answers_again.keys() <= set(AGAIN)


def test_null_is_rejected_and_listed_and_never_a_zero(journey: Journey) -> None:
    listed = rejected(journey, "air_time")
    assert len(listed) == 9_430
    assert {(entry["reason"], entry["value"]) for entry in listed} == {("null", "null")}
    flights = table()
    missing = flights[flights["air_time"].isna()]
    minutes = missing["time"].dt.floor("min").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert sorted((e["subject"], e["from"]) for e in listed) == sorted(
        zip(missing["subject"], minutes, strict=True)
    )
    positions = [entry["position"] for entry in listed]
    assert len(set(positions)) == len(positions)


def rejected(journey: Journey, meter: str) -> list[dict[str, str]]:
    """All pages of the list."""
    listed: list[dict[str, str]] = []
    after = ""
    while True:
        where = f"{METERS_PATH}/{meter}/rejected?page%5Bsize%5D={PAGE}{after}"
        page = json.loads(journey.api.get(where).body)
        listed += page["data"]
        following = page["meta"]["page"]["next"]
        if following is None:
            return listed
        assert len(page["data"]) == PAGE
        after = f"&page%5Bafter%5D={quote(following)}"
