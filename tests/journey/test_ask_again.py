"""Asking for the same usage again on both set-ups: it is told whether the answer still holds, and a
late event is noticed.
"""

import json
from collections.abc import Iterator

import pytest

from tests.journey.client import Answer
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

V3 = "/api/v3/metering"
METER = {
    "key": "tokens",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
    "dimensions": {"model": "$.model"},
}
SPAN = "from=2026-01-30T00:00:00Z&to=2026-02-01T00:00:00Z"
QUERY = f"/api/v1/meters/tokens/query?{SPAN}&windowSize=DAY&groupBy=subject&groupBy=model"
FORMS = ("application/json", "text/csv")


@pytest.fixture(scope="module", params=SETUPS)
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SetUp]:
    """A product with a meter and three events."""
    folder = tmp_path_factory.mktemp("again")
    if request.param == "embedded":
        made = embedded(folder)
    else:
        servers: Servers = request.getfixturevalue("servers")
        made = distributed(folder, servers)
    try:
        with telling(made):
            made.start()
            made.control.made(f"{V3}/meters", METER)
            for number, tokens in enumerate(("0.1", "5", "7")):
                _send(made, number, tokens)
            yield made
    finally:
        made.kill()


def _send(setup: SetUp, number: int, tokens: str) -> None:
    event = {
        "specversion": "1.0",
        "id": str(number),
        "source": "again",
        "type": "prompt",
        "subject": f"customer-{number % 2}",
        "time": f"2026-01-31T0{number}:00:00Z",
        "data": {"tokens": tokens, "model": "large"},
    }
    headers = {"Content-Type": "application/cloudevents+json"}
    answer = setup.ingest.ask("POST", f"{V3}/events", json.dumps(event).encode(), headers)
    assert answer.status in (202, 204), answer


def _asked(setup: SetUp, form: str, tag: str = '"none"') -> Answer:
    return setup.control.ask("GET", QUERY, headers={"Accept": form, "If-None-Match": tag})


def _whole(setup: SetUp, form: str, value: str) -> Answer:
    """The answer that has this value and is sealed."""

    def found() -> Answer | None:
        answer = _asked(setup, form)
        assert answer.status == 200
        sealed = "etag" in answer.headers
        assert answer.headers["cache-control"] == ("private, no-cache" if sealed else "no-store")
        return answer if sealed and value.encode() in answer.body else None

    return until(f"{value} is counted", 60, found)


def test_an_answer_holds_until_a_late_event_comes(setup: SetUp) -> None:
    before = {form: _whole(setup, form, "7.1") for form in FORMS}
    tags = {form: answer.headers["etag"] for form, answer in before.items()}
    assert len(set(tags.values())) == len(FORMS)
    for form, tag in tags.items():
        for _ in range(3):
            again = _asked(setup, form, f'"other", W/{tag}')
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == tag
            assert "meterline-complete-until" in again.headers
    _send(setup, 4, "0.25")
    for form, tag in tags.items():
        after = _whole(setup, form, "7.35")
        assert after.headers["etag"] != tag
        assert _asked(setup, form, tag).status == 200
        assert _asked(setup, form, after.headers["etag"]).status == 304


def test_what_may_still_move_is_kept_by_nobody(setup: SetUp) -> None:
    answer = setup.control.get(QUERY.replace(SPAN, "from=2026-01-30T00:00:00Z"))
    assert "etag" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


def test_a_question_in_a_body_has_no_tag(setup: SetUp) -> None:
    body = json.dumps({"to": "2026-02-01T00:00:00Z"}).encode()
    headers = {"Content-Type": "application/json", "If-None-Match": "*"}
    answer = setup.control.ask("POST", f"{V3}/meters/tokens/query", body, headers)
    assert answer.status == 200
    assert "etag" not in answer.headers
