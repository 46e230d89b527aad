"""A store that is lost is told in words, at start, in answers and before a delivery; brought back,
everything goes on. Real processes.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from clickhouse_connect import get_client

from tests.journey.deadline import until
from tests.journey.journey import SLUG, finished_run
from tests.journey.processes import PROGRAM
from tests.journey.receiver import Mailbox, Receiver, receiving
from tests.journey.refusal import refusal, refused
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

EVENTS = 40
WITHIN_S = 120.0
DAY = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
QUERY = "/api/v3/metering/meters/calls/query"
# A run waits for this, so it is short here.
HASTY = {
    "METERLINE_PRODUCE_DEADLINE_MS": "3000",
    "METERLINE_CLOCK_SKEW_MS": "500",
    "METERLINE_GRACE_MS": "3500",
}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with receiving() as receiver:
        yield _mailbox(receiver)


def _mailbox(receiver: Receiver) -> Mailbox:
    return receiver.mailbox("lost")


def send(setup: SetUp) -> None:
    """The events, which all count as soon as this returns."""
    events = [
        {"specversion": "1.0", "id": str(number), "source": "s", "type": "call",
         "subject": f"c{number % 4}", "time": "2026-01-01T10:00:00Z"}
        for number in range(EVENTS)
    ]  # fmt: skip
    answer = setup.ingest.ask("POST", "/api/v3/metering/events", events, BATCH)
    assert answer.status == 202, answer.body
    until("the events count", WITHIN_S, lambda: counted(setup) == EVENTS)


def counted(setup: SetUp) -> int:
    """How many events count, once nothing is under way."""
    status = setup.status
    return int(status["account"]["new"]) if status["caught_up"] and status["account"] else -1


def bill(setup: SetUp, mailbox: Mailbox) -> None:
    """A meter, events of a day, and its bill delivered."""
    calls = {"key": "calls", "name": "calls", "aggregation": "count", "event_type": "call"}
    setup.control.made("/api/v3/metering/meters", calls)
    report = setup.control.made(
        "/api/v1/reports",
        {
            "slug": SLUG, "meterIdOrSlug": "calls", "type": "webhook",
            "schedule": {"interval": "1d", "startAt": "2026-01-01T00:00:00.000Z"},
            "query": {"groupBy": []}, "endpoint": {"url": mailbox.url},
        },
    )  # fmt: skip
    mailbox.secret = report["endpoint"]["signingSecret"]
    send(setup)
    run = setup.control.made(f"/api/v1/reports/{SLUG}/runs", DAY)
    finished_run(setup.control, run["id"])
    assert len(mailbox.delivered) == 4


def total(setup: SetUp) -> str:
    """What all calls sum up to."""
    return str(setup.control.ask("POST", QUERY, {}).json["data"][0]["value"])


def ask_again(setup: SetUp) -> str:
    """Ask for a revision of the bill; the id of the run."""
    run = setup.control.made(f"/api/v1/reports/{SLUG}/runs", {**DAY, "revise": True})
    return str(run["id"])


def test_an_embedded_store_that_is_lost_is_told_at_start(tmp_path: Path, mailbox: Mailbox) -> None:
    setup = embedded(tmp_path, HASTY)
    data, up = tmp_path / "data", setup.processes["up"]
    try:
        with telling(setup):
            setup.start()
            bill(setup, mailbox)
            setup.kill()
            (data / "usage").rename(data / "away")
            line = refused(up)
            assert "the usage store has lost what was counted: it is new and empty" in line
            assert "set usage_lost to " in line
            shutil.rmtree(data / "usage")
            (data / "away").rename(data / "usage")
            setup.start()
            assert total(setup) == str(EVENTS), "brought back, it answers"
            setup.kill()
            shutil.rmtree(data / "usage")
            refused(up)
            up.environment["METERLINE_USAGE_LOST"] = line.split("usage_lost to ")[1].split(":")[0]
            setup.start()
            send(setup)  # all of them copies
            assert (counted(setup), total(setup)) == (EVENTS, str(EVENTS)), "counted again"
            assert finished_run(setup.control, ask_again(setup))["state"] == "skipped"
            setup.kill()
            setup.start()  # the setting may stay: it names a store that is no more
            assert total(setup) == str(EVENTS)
    finally:
        setup.kill()
    assert len(mailbox.delivered) == 4


def test_a_control_store_that_is_lost_is_told_at_start(tmp_path: Path) -> None:
    setup = embedded(tmp_path, HASTY)
    data, up = tmp_path / "data", setup.processes["up"]
    try:
        with telling(setup):
            setup.start()
            send(setup)
            setup.kill()
            for file in data.glob("control.db*"):
                file.rename(tmp_path / file.name)
            line = refused(up)
            assert "holds events, but the control store is new" in line
            assert refused(up) == line, "nothing was registered meanwhile"
            for file in data.glob("control.db*"):
                file.unlink()
            for file in tmp_path.glob("control.db*"):
                file.rename(data / file.name)
            setup.start()
            assert counted(setup) == EVENTS
    finally:
        setup.kill()


def test_a_server_that_lost_its_tables_is_told_while_everything_runs(
    tmp_path: Path, servers: Servers, mailbox: Mailbox
) -> None:
    setup = distributed(tmp_path, servers, HASTY)
    settings = setup.processes["control"].environment
    database = urlsplit(settings["METERLINE_USAGE_URL"]).path.strip("/")
    clickhouse = urlsplit(servers.clickhouse)
    engine = get_client(host=clickhouse.hostname or "", port=clickhouse.port or 0)
    try:
        with telling(setup):
            setup.start()
            bill(setup, mailbox)
            engine.command(f"RENAME DATABASE {database} TO {database}_away")
            migrate = [str(PROGRAM), "migrate"]
            line = refusal(migrate, tmp_path, settings)
            assert "the usage store has lost what was counted: it is new and empty" in line
            answer = setup.control.ask("POST", QUERY, {})
            assert answer.status == 503, answer.body
            assert "has lost data that was counted before" in answer.json["detail"]
            for path in ("accounts", "refusals", "event-trace?source=s&id=1"):
                asked = setup.control.ask("GET", f"/api/v3/metering/{path}")
                assert (path, asked.status) == (path, 503)
            status = setup.status
            assert (status["caught_up"], status["complete_until"]) == (None, None)
            assert "lost what was counted" in status["unavailable"][0]["reason"]
            run = ask_again(setup)
            told = (setup.processes["dispatch"].log_path).read_text
            until("it is told", WITHIN_S, lambda: "lost what was counted" in told())
            for name in ("control", "dispatch", "aggregate-1"):
                setup.processes[name].kill()
                assert "lost what was counted" in refused(setup.processes[name])
            assert len(mailbox.delivered) == 4, "no bill was superseded"
            engine.command(f"DROP DATABASE {database}")
            engine.command(f"RENAME DATABASE {database}_away TO {database}")
            setup.start()
            assert finished_run(setup.control, run)["state"] == "skipped"
            assert total(setup) == str(EVENTS)
    finally:
        setup.kill()
        engine.close()
    assert len(mailbox.delivered) == 4
