"""kill -9 of every process in the middle of a load; then the totals are those of pandas."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from demo.flights import METERS
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.feed import feeding
from tests.journey.journey import (
    METERS_PATH,
    finished_run,
    make_meters,
    make_report,
    request_run,
    told,
)
from tests.journey.oracle import Asked, carriers, expected
from tests.journey.questions import ALL, JANUARY, NEW_YORK, ROUTE, Question
from tests.journey.receiver import Mailbox, Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling
from tests.services.local import LocalService
from tests.services.service import Service

FLIGHTS = 48_000  # the table begins with all of January
AWAY = 6_000  # more of them, sent while two servers are away
BATCH = 200
CHOSEN = {"flights", "distance", "air_time_avg", "aircraft", "distance_latest"}
COUNTED_WITHIN_S = 240.0


@dataclass(slots=True)
class Battered:
    """A set-up that was loaded under fire: what its sender said, and the run it made."""

    setup: SetUp
    victims: Sequence[Service | LocalService]
    mailbox: Mailbox
    words: str = ""
    run: Any = None

    def go(self, lines: Sequence[bytes]) -> None:
        """Load it, and have it make a report."""
        self.setup.start()
        api = self.setup.control
        make_meters(api, [one for one in METERS if one["key"] in CHOSEN])
        self.words = self._load(lines)
        make_report(api, self.mailbox)
        run = request_run(api)
        maker = self.setup.processes["up" if self.setup.name == "embedded" else "dispatch"]
        maker.kill()
        maker.start()
        self.run = finished_run(api, run["id"])

    def _load(self, lines: Sequence[bytes]) -> str:
        """Send the lines; each victim is killed in the middle of a piece, and started again."""
        size = len(lines) // (len(self.victims) + 1)
        with feeding(self.setup, "--batch", str(BATCH)) as feed:
            for place, victim in enumerate(self.victims):
                feed.give(lines[place * size : (place + 1) * size])
                feed.take_half(size)
                victim.kill()
                victim.start()
            feed.give(lines[len(self.victims) * size :])
            return feed.finish()


@pytest.fixture(scope="module")
def lines(flights_file: Path) -> Sequence[bytes]:
    with flights_file.open("rb") as file:
        return list(islice(file, FLIGHTS + AWAY))


@pytest.fixture(scope="module")
def fires(
    tmp_path_factory: pytest.TempPathFactory,
    lines: Sequence[bytes],
    receiver: Receiver,
    servers: Servers,
    kafka_service: Service,
    clickhouse_service: Service,
    postgres_service: Service,
) -> Iterator[Mapping[str, Future[Battered]]]:
    """Both set-ups under fire at the same time: most of it is waiting."""
    one = embedded(tmp_path_factory.mktemp("battered"))
    other = distributed(tmp_path_factory.mktemp("battered"), servers)
    roles = [other.processes[name] for name in ("aggregate-1", "ingest", "control", "dispatch")]
    rest = (postgres_service, clickhouse_service)
    victims: dict[SetUp, list[Service | LocalService]] = {
        one: [one.processes["up"]] * 5,
        other: [kafka_service, *roles, *rest],
    }

    def went(setup: SetUp) -> Battered:
        mailbox = receiver.mailbox(f"battered-{setup.name}")
        battered = Battered(setup, victims[setup], mailbox)
        with telling(setup):
            battered.go(lines[:FLIGHTS])
        return battered

    try:
        with ThreadPoolExecutor(len(victims)) as threads:
            made = {setup.name: threads.submit(went, setup) for setup in victims}
        yield made
    finally:
        for setup in victims:
            setup.kill()


@pytest.fixture(scope="module", params=SETUPS)
def battered(request: pytest.FixtureRequest, fires: Mapping[str, Future[Battered]]) -> Battered:
    return fires[request.param].result()


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
    assert "retries" in battered.words, "requests were cut off"
    totals_equal_pandas(battered.setup, FLIGHTS)


def test_the_account_tells_of_every_copy(battered: Battered) -> None:
    account = battered.setup.status["account"]
    assert account["new"] == FLIGHTS
    assert (account["conflict"], account["invalid"]) == (0, 0)
    assert account["received"] == FLIGHTS + account["duplicate"]


def test_a_run_survives_whoever_makes_it(battered: Battered) -> None:
    run, box = battered.run, battered.mailbox
    assert (run["state"], run["failed"]) == ("succeeded", 0)
    bodies = [json.loads(one.body) for one in box.delivered]
    assert sorted(body["query"]["subject"] for body in bodies) == list(carriers(*JANUARY))
    total = sum(int(entry["valueText"]) for body in bodies for entry in body["usage"])
    assert total == sum(int(row.value) for row in expected(Asked("distance", *JANUARY)))
    assert box.refused == []


@pytest.mark.parametrize("battered", ["distributed"], indirect=True)
def test_events_are_taken_while_the_stores_are_away(
    battered: Battered,
    lines: Sequence[bytes],
    postgres_service: Service,
    clickhouse_service: Service,
) -> None:
    setup = battered.setup
    media = {"Content-Type": "application/cloudevents-batch+json"}
    try:
        postgres_service.kill()
        clickhouse_service.kill()
        for first in range(FLIGHTS, FLIGHTS + AWAY, BATCH):
            body = b"[" + b",".join(lines[first : first + BATCH]) + b"]"
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
