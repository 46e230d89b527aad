"""Embedded and distributed give the same answers, byte for byte."""

import json
from typing import Any

from tests.journey.journey import Journey
from tests.journey.questions import QUESTIONS
from tests.journey.test_flights import rejected

# Ids are drawn when a thing is made, and instants are those of the making.
OF_THE_MAKING = ("meter.id", "run.id", "run.completeUntil")


def test_to_the_same_questions(embedded_journey: Journey, distributed_journey: Journey) -> None:
    assert embedded_journey.answers.keys() == set(QUESTIONS)
    for question in QUESTIONS:
        one, other = embedded_journey.answers[question], distributed_journey.answers[question]
        assert one == other, question


def test_of_what_was_rejected(embedded_journey: Journey, distributed_journey: Journey) -> None:
    lists = []
    for journey in (embedded_journey, distributed_journey):
        listed = rejected(journey, "aircraft")
        for entry in listed:
            entry.pop("position")  # requests in flight overtake each other on their way to the log
        lists.append(sorted(json.dumps(entry) for entry in listed))
    assert len(lists[0]) == 2_512
    assert lists[0] == lists[1]


def test_in_what_they_deliver(embedded_journey: Journey, distributed_journey: Journey) -> None:
    one, other = (
        sorted(_made_alike(delivered.body) for delivered in journey.mailbox.delivered)
        for journey in (embedded_journey, distributed_journey)
    )
    assert len(one) == 16
    assert one == other


def _made_alike(body: bytes) -> bytes:
    document: Any = json.loads(body)
    for path in OF_THE_MAKING:
        member, name = path.split(".")
        value = document[member][name]
        quoted = json.dumps(value).encode()
        assert body.count(quoted), f"{path} is written as JSON writes it"
        body = body.replace(quoted, b'""')
    return body
