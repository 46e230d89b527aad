"""One trace through all roles, each of them a process of its own: the log and the stores carry it
from one to the next.
"""

import json
from collections.abc import Iterator

import pytest

from tests.journey.deadline import until
from tests.journey.receiver import Receiver
from tests.journey.setups import Servers, SetUp, distributed, started
from tests.traced.collector import Collector, collecting
from tests.traced.whole import CALLED, TRACE, WITHIN_S, daily_report, one_trace, traced_deliveries

EVENTS = "/api/v3/metering/events"
HEADERS = {"Content-Type": "application/cloudevents-batch+json", "traceparent": CALLED}
SUBJECTS = ("s0", "s1", "s2")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture
def setup(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers, collector: Collector
) -> Iterator[SetUp]:
    """Only what asks for it is traced."""
    traces = {"METERLINE_TRACES_URL": collector.url, "METERLINE_TRACES_RATIO": "0"}
    with started(distributed(tmp_path_factory.mktemp("traced"), servers, traces)) as made:
        yield made


def test_a_trace_goes_through_all_roles(
    setup: SetUp, receiver: Receiver, collector: Collector
) -> None:
    api, box = setup.control, receiver.mailbox("traced")
    daily_report(api, box)
    events = [
        {
            "specversion": "1.0",
            "id": str(number),
            "source": "traced",
            "type": "call",
            "subject": subject,
            "time": "2026-03-01T10:00:30Z",
        }
        for number, subject in enumerate(SUBJECTS)
    ]
    answer = setup.ingest.ask("POST", EVENTS, json.dumps(events).encode(), HEADERS)
    assert answer.status == 202
    until("all is counted", WITHIN_S, lambda: setup.status["caught_up"])
    window = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    api.made("/api/v1/reports/calls/runs", window)
    told = traced_deliveries(api, box, collector)
    found = one_trace(collector, answer.headers["x-request-id"], told)
    by_role = {(it.service, it.name) for it in found if it.trace == TRACE}
    assert {role for role, _ in by_role} == {
        "meterline-ingest",
        "meterline-aggregate",
        "meterline-dispatch",
    }
    assert ("meterline-aggregate", "count events") in by_role
    assert ("meterline-dispatch", "deliver") in by_role
    assert not [it for it in found if set(SUBJECTS) & set(it.attributes.values())]
