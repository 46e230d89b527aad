"""One trace from a request to its deliveries, as a collector and receivers see it."""

from typing import Final

from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.journey import METERS_PATH
from tests.journey.receiver import Mailbox
from tests.traced.collector import Collected, Collector

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER: Final = "00f067aa0ba902b7"
CALLED: Final = f"00-{TRACE}-{CALLER}-01"
WITHIN_S: Final = 180.0


def daily_report(api: Server, box: Mailbox) -> None:
    """Make a meter of events of the type `call`, and its report by day to this mailbox."""
    meter = {"key": "calls", "name": "calls", "aggregation": "count", "event_type": "call"}
    api.made(METERS_PATH, meter)
    report = {
        "slug": "calls",
        "meterIdOrSlug": "calls",
        "type": "webhook",
        "schedule": {"interval": "1d", "startAt": "2026-03-01T00:00:00.000Z"},
        "query": {},
        "endpoint": {"url": box.url},
    }
    box.secret = api.made("/api/v1/reports", report)["endpoint"]["signingSecret"]


def traced_deliveries(api: Server, box: Mailbox, collector: Collector) -> set[str]:
    """What receivers were told of traces. A delivery does not wait for a slow answer to which trace
    it is of, so it may have gone untraced: then it is sent again, once that is known.
    """

    def told() -> set[str]:
        return {it.traceparent for it in box.delivered} - {""}

    def known() -> bool:
        return any(it.name == "make run" and TRACE in it.links for it in collector.spans)

    until("the run is linked to its events", WITHIN_S, known)
    for it in [it for it in box.delivered if not it.traceparent]:
        path = f"/api/v3/metering/deliveries/{it.id}/replay"
        assert api.ask("POST", path).status == 202
    until("each is delivered in the trace", WITHIN_S, lambda: len(told()) == 3)
    return told()


def one_trace(collector: Collector, request_id: str, told: set[str]) -> list[Collected]:
    """The collector saw one trace, from the request to the deliveries that reported its events, and
    receivers were told of it. All spans that it has.
    """

    def whole() -> bool:
        return [it.name for it in collector.of(TRACE)].count("deliver") == 3

    until("all spans are sent", WITHIN_S, whole)
    found = collector.of(TRACE)
    by_span = {it.span: it for it in found}
    named = {it.name: it for it in found}
    request, append = named["POST ingest-metering-events"], named["append to log"]
    assert (request.parent, request.attributes["meterline.request_id"]) == (CALLER, request_id)
    assert append.parent == named["admit events"].parent == request.span
    counted = [it for it in found if it.name == "count events"]
    assert counted
    assert {it.parent for it in counted} == {append.span}
    delivered = [it for it in found if it.name == "deliver"]
    assert {it.parent for it in delivered} == {append.span}
    assert told == {f"00-{TRACE}-{it.span}-01" for it in delivered}
    linked = {it.name for it in collector.spans if TRACE in it.links}
    assert linked == {"flush", "make run"}
    assert len(by_span) == len(found)
    assert len(collector.spans) == len(found) + sum(it.name in linked for it in collector.spans), (
        "nothing else is sampled"
    )
    return collector.spans
