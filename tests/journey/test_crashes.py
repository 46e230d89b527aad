"""kill -9 of every process in the middle of a load; then the totals are those of pandas."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from demo.flights import METERS
from tests.journey.conftest import SETUPS, running
from tests.journey.deadline import until
from tests.journey.feed import feeding
from tests.journey.journey import (
    METERS_PATH,
    ask_run,
    finished_run,
    make_meters,
    make_report,
    told,
)
from tests.journey.oracle import Asked, carriers, expected
from tests.journey.questions import ALL, JANUARY, NEW_YORK, ROUTE, Question
from tests.journey.receiver import Mailbox, Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded
from tests.services.service import Service

FLIGHTS = 48_000  # the table begins with all of January
AWAY = 6_000  # more of them, sent while two servers are away
BATCH = 200
CHOSEN = {"flights", "distance", "air_time_avg", "aircraft", "distance_latest"}
COUNTED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Battered:
    """A set-up that was loaded under fire, and what its sender said."""

    setup: SetUp
    mailbox: Mailbox
    words: str
    rest: Sequence[bytes]  # flights that were not sent yet


def load_under_fire(setup: SetUp, lines: Sequence[bytes], victims: Sequence[Any]) -> str:
    """Send the lines; each victim in turn is killed in the middle of a piece, and started again."""
    size = len(lines) // (len(victims) + 1)
    with feeding(setup, "--batch", str(BATCH)) as feed:
        for place, victim in enumerate(victims):
            feed.give(lines[place * size : (place + 1) * size])
            feed.take_half(size)
            victim.kill()
            victim.start()
        feed.give(lines[len(victims) * size :])
        return feed.finish()


@pytest.fixture(scope="module", params=SETUPS)
def battered(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    flights_file: Path,
    receiver: Receiver,
) -> Iterator[Battered]:
    folder = tmp_path_factory.mktemp("battered")
    with flights_file.open("rb") as file:
        lines = list(islice(file, FLIGHTS + AWAY))
    services: list[Service] = []
    if request.param == "embedded":
        setup = embedded(folder)
        victims: list[Any] = [setup.processes["up"]] * 5
    else:
        services = [
            request.getfixturevalue(f"{name}_service")
            for name in ("postgres", "clickhouse", "kafka")
        ]
        servers: Servers = request.getfixturevalue("servers")
        setup = distributed(folder, servers)
        # First an aggregator: the group gives its partitions away only after half a minute, and the
        # others die meanwhile.
        roles = ("aggregate-1", "ingest", "control", "dispatch")
        victims = [*(setup.processes[role] for role in roles), *services]
    with running(setup):
        make_meters(setup.control, [one for one in METERS if one["key"] in CHOSEN])
        words = load_under_fire(setup, lines[:FLIGHTS], victims)
        mailbox = receiver.mailbox(f"battered-{setup.name}")
        yield Battered(setup, mailbox, words, lines[FLIGHTS:])


def totals_equal_pandas(setup: SetUp, flights: int) -> None:
    for asked in (
        Asked("flights", *ALL),
        Asked("distance", *ALL, "P1M", keys=("subject", *ROUTE)),
        Asked("air_time_avg", *ALL, "P1D", NEW_YORK),
        Asked("aircraft", *ALL, "P1D"),
        Asked("distance_latest", *ALL, "P1D"),
    ):
        question = Question(asked)
        rows = question.rows(told(question.put_to(setup.control)))
        assert rows == expected(asked, flights), asked


def test_the_totals_are_the_same(battered: Battered) -> None:
    assert "sent again" in battered.words, "requests were cut off"
    totals_equal_pandas(battered.setup, FLIGHTS)


def test_the_account_tells_of_every_copy(battered: Battered) -> None:
    account = battered.setup.status["account"]
    assert account["new"] == FLIGHTS
    assert (account["conflict"], account["invalid"]) == (0, 0)
    assert account["received"] == FLIGHTS + account["duplicate"]


def test_a_run_survives_whoever_makes_it(battered: Battered) -> None:
    setup = battered.setup
    make_report(setup.control, battered.mailbox)
    run = ask_run(setup.control)
    maker = setup.processes["up" if setup.name == "embedded" else "dispatch"]
    maker.kill()
    maker.start()
    run = finished_run(setup.control, run["id"])
    assert (run["state"], run["failed"]) == ("succeeded", 0)
    bodies = [json.loads(one.body) for one in battered.mailbox.delivered]
    assert sorted(body["query"]["subject"] for body in bodies) == list(carriers(*JANUARY))
    total = sum(int(entry["valueText"]) for body in bodies for entry in body["usage"])
    assert total == sum(int(row.value) for row in expected(Asked("distance", *JANUARY)))
    assert battered.mailbox.refused == []


@pytest.mark.parametrize("battered", ["distributed"], indirect=True)
def test_events_are_taken_while_the_stores_are_away(
    battered: Battered, postgres_service: Service, clickhouse_service: Service
) -> None:
    setup = battered.setup
    media = {"Content-Type": "application/cloudevents-batch+json"}
    try:
        postgres_service.kill()
        clickhouse_service.kill()
        for first in range(0, AWAY, BATCH):
            body = b"[" + b",".join(battered.rest[first : first + BATCH]) + b"]"
            answer = setup.ingest.ask("POST", "/api/v3/metering/events", body, media)
            assert answer.status == 202, answer.body
        assert setup.ingest.get("/readyz").json["status"] == "ready"
        asked = setup.control.ask("GET", f"{METERS_PATH}/flights")
        assert asked.status == 503
        assert asked.headers["content-type"] == "application/problem+json"
        assert int(asked.headers["retry-after"]) >= 1
    finally:
        postgres_service.start()
        clickhouse_service.start()

    def counted() -> bool:
        status = setup.status
        account = status["account"]
        return bool(status["caught_up"] and account and account["new"] == FLIGHTS + AWAY)

    until("the events count", COUNTED_WITHIN_S, counted)
    totals_equal_pandas(setup, FLIGHTS + AWAY)
