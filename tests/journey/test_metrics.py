"""Metrics of a running product: every outcome moves the metric of its name by the right amount,
and no declared metric is dead.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meterline.ports import Kind, metrics
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.journey import METERS_PATH, Journey
from tests.journey.receiver import Receiver
from tests.journey.setups import SetUp, embedded, telling
from tests.traced.collector import Collector, collecting
from tests.traced.whole import CALLED, TRACE, daily_report, one_trace, traced_deliveries

EVENTS = "/api/v3/metering/events"
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
WITHIN_S = 180.0
QUOTA = 130
PLANS = json.dumps({"default": {"events": {"quota": QUOTA, "window_s": 86_400}}})
# Seen where something fails: tests/unit/ingest/test_publisher.py and the tests of both stores.
# Traces are off in the year of flights.
OF_FAULTS = {metrics.STORE_ERRORS.name, metrics.TRACE_SPANS.name, metrics.STRAYS.name}
TRACED = {**BATCH, "traceparent": CALLED}
Samples = Mapping[tuple[str, str], float]


def samples(server: Server) -> Samples:
    """A scrape: each sample by its name and the values of its labels."""
    text = server.get("/metrics").body.decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def event(name: str, number: int, subject: str = "s") -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": name,
        "source": "metrics",
        "type": "call",
        "subject": subject,
        "time": "2026-03-01T10:00:30Z",
        "data": {"number": number},
    }


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[SetUp]:
    """Only what asks for it is traced."""
    traces = {"METERLINE_TRACES_URL": collector.url, "METERLINE_TRACES_RATIO": "0"}
    made = embedded(tmp_path_factory.mktemp("metrics"), {"METERLINE_PLANS": PLANS, **traces})
    with telling(made):
        made.start()
        try:
            yield made
        finally:
            made.kill()


def send(setup: SetUp, *events: Mapping[str, Any]) -> int:
    return setup.ingest.ask("POST", EVENTS, json.dumps(events).encode(), BATCH).status


def send_traced(setup: SetUp, *events: Mapping[str, Any]) -> str:
    """Their request's id."""
    answer = setup.ingest.ask("POST", EVENTS, json.dumps(events).encode(), TRACED)
    assert answer.status == 202
    return answer.headers["x-request-id"]


def test_every_outcome_moves_its_metric(
    setup: SetUp, receiver: Receiver, collector: Collector
) -> None:
    api, box = setup.control, receiver.mailbox("metrics")
    daily_report(api, box)
    before = samples(api)
    sent = send_traced(setup, *(event(str(one), one, f"s{one % 3}") for one in range(100)))
    assert send(setup, *(event(str(one), one, f"s{one % 3}") for one in range(10))) == 202
    assert send(setup, event("0", 999, "s0"), event("1", 999, "s1")) == 202
    assert setup.ingest.ask("POST", EVENTS, b"{", BATCH).status == 400
    assert send(setup, *(event(f"more{one}", one) for one in range(QUOTA))) == 429
    until("all is counted", WITHIN_S, lambda: setup.status["caught_up"])
    api.ask("POST", f"{METERS_PATH}/calls/query", {})
    window = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    run = api.made("/api/v1/reports/calls/runs", window)
    path = f"/api/v1/reports/calls/runs/{run['id']}"
    until("the run ends", WITHIN_S, lambda: api.get(path).json["endedAt"])
    verdict = "meterline_counting_verdicts_total"
    # Where a new catalogue is taken on, open slices are read again, and counted again.
    until("verdicts are told", WITHIN_S, lambda: samples(api)[verdict, "conflict"] >= 2)
    moved = defaultdict(float)
    for name, value in samples(api).items():
        moved[name] = value - before.get(name, 0.0)
    assert moved["meterline_ingest_events_total", "accepted"] == 112
    assert moved["meterline_ingest_events_total", "rate_limited"] == QUOTA
    assert moved["meterline_ingest_events_total", "unavailable"] == 0
    assert moved["meterline_ingest_refused_requests_total", ""] == 1
    assert moved["meterline_ingest_pack_events_sum", ""] == 112
    assert moved[verdict, "new"] == 100
    assert moved[verdict, "duplicate"] == 10
    assert moved[verdict, "conflict"] == 2
    assert moved[verdict, "invalid"] == 0
    assert moved["meterline_flush_rows_total", "events"] == 100
    assert moved["meterline_flush_rows_total", "rejects"] == 12
    assert moved["meterline_delivery_attempts_total", "delivered"] == 3
    assert moved["meterline_deliveries_total", "delivered"] == 3
    assert moved["meterline_runs_decided_total", ""] == 1
    assert moved["meterline_query_seconds_count", "usage"] == 1
    posted = "meterline_http_requests_total"
    posts = {code: moved[posted, f"ingest-metering-events,{code}"] for code in (202, 400, 429)}
    assert posts == {202: 3, 400: 1, 429: 1}
    assert len(box.delivered) == 3
    found = one_trace(collector, sent, traced_deliveries(api, box, collector))
    assert not [it for it in found if {"s0", "s1"} & set(it.attributes.values())], "subjects"


def test_gauges_tell_that_all_is_well(setup: SetUp) -> None:
    def well() -> Samples | None:
        found = samples(setup.control)
        return found if found["meterline_ready", ""] == 1 else None

    found = until("it is ready", WITHIN_S, well)
    assert 0 < found["meterline_freshness_seconds", ""] < 3_600
    assert [found["meterline_log_lag_records", str(number)] for number in range(4)] == [0] * 4
    for gauge in ("deliveries_owed", "deliveries_owed_age_seconds", "endpoints_out", "runs_late"):
        assert found[f"meterline_{gauge}", ""] == 0
    assert found["meterline_partitions_held", ""] == 4
    assert found["meterline_counting_stalled_seconds", ""] == 0


def test_subjects_and_ids_are_in_no_metric(setup: SetUp) -> None:
    text = setup.control.get("/metrics").body.decode()
    assert "s0" not in text.replace("s0.", "")
    assert "calls" not in text


def test_openmetrics_is_answered_where_it_is_asked_for(setup: SetUp) -> None:
    asked = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    answer = setup.control.get("/metrics", asked)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith(b"# EOF\n")
    assert f'trace_id="{TRACE}"'.encode() in answer.body, "an exemplar of what was traced"


def test_no_declared_metric_is_dead(journey: Journey) -> None:
    """After a year of flights, each metric was observed by the processes that export it."""
    seen: dict[str, float] = defaultdict(float)
    setup = journey.setup
    assert setup.ingest.ask("POST", EVENTS, b"{", BATCH).status == 400  # flights are all valid
    for process in setup.processes.values():
        for (name, _), value in samples(Server(process.url)).items():
            told = name.removesuffix("_count")
            seen[told] += 0 if math.isnan(value) else max(value, 0)
            seen[f"{told} is there"] = 1
    for metric in metrics.DECLARED:
        if metric.kind is Kind.GAUGE:
            assert seen[f"{metric.name} is there"], metric.name
        elif metric.name not in OF_FAULTS:
            assert seen[metric.name] > 0, metric.name
    assert seen["meterline_freshness_seconds"] > 0
    assert seen["meterline_build_info"] == len(setup.processes)
    accepted = journey.account_again["received"]
    assert seen["meterline_ingest_events_total"] >= accepted
    assert seen["meterline_ingest_pack_events"] > 0
