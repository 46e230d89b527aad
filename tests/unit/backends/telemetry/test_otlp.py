"""Spans by OTLP, to a collector on loopback: what is sent, and that an ill one holds nobody up."""

from collections.abc import Iterator

import pytest

from meterline.backends.telemetry.otlp import OtlpTracer, exporter_to
from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.limits import SPANS_PER_SECOND_MAX, TRACE_ATTRIBUTE_CHARS_MAX, TRACE_LINKS_MAX
from meterline.ports import TraceContext, Work, metrics
from tests.journey.deadline import until
from tests.traced.collector import Collector, collecting
from tests.unit.backends.telemetry.test_prometheus import values

RESOURCE = {"service.name": "meterline-test"}
NAME = metrics.TRACE_SPANS.name
PARENT = TraceContext(0xABC, 0xDEF, sampled=True, state="a=b")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def opened(collector: Collector, recorder: PrometheusRecorder, ratio: float = 0.0) -> OtlpTracer:
    return OtlpTracer(exporter_to(collector.url), ratio, RESOURCE, recorder)


def counted(recorder: PrometheusRecorder, outcome: str) -> float:
    return values(recorder, NAME)[(outcome,)]


def test_a_span_comes_with_its_parent_its_links_and_bounded_attributes(
    collector: Collector,
) -> None:
    recorder = PrometheusRecorder()
    tracer = opened(collector, recorder)
    links = [TraceContext(one, 1, sampled=True) for one in range(1, 100)]
    span = tracer.begin(Work.DELIVER, PARENT, links, tracer.now_ns() - 5_000_000)
    assert span is not None
    assert span.context.state == "a=b"
    span.set("meterline.run_id", "x" * 10_000)
    span.rename("posted")
    span.end()
    assert tracer.begin(Work.RUN) is None, "a root follows the ratio"
    assert tracer.begin(Work.RUN, TraceContext(1, 1, sampled=False), links) is None
    tracer.close()
    (found,) = collector.spans
    assert (found.service, found.name) == ("meterline-test", "posted")
    assert (found.trace, found.parent) == (PARENT.trace, "0000000000000def")
    assert found.span == f"{span.context.span_id:016x}"
    assert len(found.links) == TRACE_LINKS_MAX
    assert len(found.attributes["meterline.run_id"]) == TRACE_ATTRIBUTE_CHARS_MAX
    assert found.took_ns >= 5_000_000
    assert counted(recorder, "exported") == 1


def test_a_span_that_is_never_ended_is_never_sent(collector: Collector) -> None:
    tracer = opened(collector, PrometheusRecorder(), ratio=1.0)
    begun, ended = tracer.begin(Work.RUN), tracer.begin(Work.RUN)
    assert begun is not None
    assert ended is not None
    ended.end("it failed")
    tracer.close()
    assert [it.span for it in collector.spans] == [f"{ended.context.span_id:016x}"]


def test_a_collector_that_hangs_costs_spans_and_nothing_else(collector: Collector) -> None:
    """Its thread is held up for good: what waited for it would never return. What finds no room is
    counted.
    """
    collector.healthy.clear()
    recorder = PrometheusRecorder()
    tracer = OtlpTracer(
        exporter_to(collector.url),
        1.0,
        RESOURCE,
        recorder,
        queued_max=100,
        every_ms=10,
        per_second_max=10_000,
    )
    for _ in range(1_000):
        span = tracer.begin(Work.APPEND)
        assert span is not None
        span.end()
    assert counted(recorder, "dropped") >= 1_000 - 2 * 100
    until("it is asked", 30.0, lambda: collector.asked)
    assert counted(recorder, "exported") == 0
    collector.healthy.set()
    until("what waited is sent", 30.0, lambda: counted(recorder, "exported") > 0)
    tracer.close()
    assert sum(counted(recorder, it) for it in ("exported", "failed", "dropped")) == 1_000


def test_a_collector_that_refuses_is_told_once(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    collector.status = 400
    recorder = PrometheusRecorder()
    tracer = OtlpTracer(
        exporter_to(collector.url),
        1.0,
        RESOURCE,
        recorder,
        every_ms=10,
    )
    for turn in range(1, 4):
        span = tracer.begin(Work.APPEND)
        assert span is not None
        span.end()
        until("it is refused", 30.0, lambda: counted(recorder, "failed") == turn)  # noqa: B023
    collector.status = 200
    span = tracer.begin(Work.APPEND)
    assert span is not None
    span.end()
    until("it is taken", 30.0, lambda: counted(recorder, "exported") == 1)
    tracer.close()
    told = capsys.readouterr()
    assert (told.out + told.err).count("unavailable") == 1
    assert (told.out + told.err).count("resumed") == 1


def test_callers_do_not_decide_how_much_is_sampled(collector: Collector) -> None:
    recorder = PrometheusRecorder()
    tracer = opened(collector, recorder)
    asked = 10 * SPANS_PER_SECOND_MAX
    begun = [tracer.begin(Work.REQUEST, PARENT) for _ in range(asked)]
    assert begun[0] is not None
    assert None in begun
    assert counted(recorder, "dropped") == begun.count(None)
    tracer.close()


@pytest.mark.parametrize("parent", [None, PARENT])
def test_a_disabled_sdk_leaves_everything_untraced(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, parent: TraceContext | None
) -> None:
    """Its spans have ids of 0, or their parent's: an event with such a trace would be wrong."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracer = opened(collector, PrometheusRecorder(), ratio=1.0)
    assert not tracer.on
    assert tracer.begin(Work.APPEND, parent) is None
    tracer.close()
    assert collector.asked == 0
