"""Metrics as Prometheus reads them: formats, bounded labels, roles, one registry each."""

import math
import random
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from meterline.backends.telemetry.prometheus import PrometheusRecorder
from meterline.ports import SILENT, Kind, Metric, metrics

OPEN = "application/openmetrics-text; version=1.0.0"


def values(recorder: PrometheusRecorder, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by the values of their labels."""
    text, _ = recorder.exposition("")
    return {
        tuple(sample.labels.values()): sample.value
        for family in plain(text.decode())
        for sample in family.samples
        if sample.name == name
    }


def test_both_formats_are_read_by_their_parsers() -> None:
    recorder = PrometheusRecorder()
    recorder.count(metrics.INGEST_EVENTS, 3, "accepted")
    recorder.observe(metrics.APPEND_SECONDS, 0.004)
    for accept, parse, media in (("", plain, "text/plain"), (OPEN, openmetrics, OPEN[:28])):
        text, answered = recorder.exposition(accept)
        assert answered.startswith(media)
        found = {family.name: family for family in parse(text.decode())}
        events = found["meterline_ingest_events"]
        assert ("accepted", 3.0) in {
            (one.labels.get("outcome"), one.value) for one in events.samples
        }
        assert found["meterline_ingest_append_seconds"].type == "histogram"


def test_two_recorders_do_not_mix() -> None:
    one, other = PrometheusRecorder(), PrometheusRecorder()
    one.count(metrics.RUNS_DECIDED, 2)
    assert values(one, "meterline_runs_decided_total") == {(): 2.0}
    assert values(other, "meterline_runs_decided_total") == {(): 0.0}


def test_a_thousand_subjects_make_no_series() -> None:
    recorder = PrometheusRecorder()
    chance = random.Random(70)
    for _ in range(1_000):
        subject = f"customer-{chance.getrandbits(64):x}"
        recorder.count(metrics.INGEST_EVENTS, 1, subject)
        recorder.count(metrics.HTTP_REQUESTS, 1, subject, "200")
        recorder.set(metrics.BUILD_INFO, 1, "0.1.0", subject, "embedded")
    outcomes = values(recorder, "meterline_ingest_events_total")
    assert outcomes == {
        ("accepted",): 0.0, ("rate_limited",): 0.0, ("unavailable",): 0.0, ("other",): 1_000.0
    }  # fmt: skip
    most = metrics.HTTP_REQUESTS.labels[0].most
    requests = values(recorder, "meterline_http_requests_total")
    assert len(requests) == most + 1
    assert requests["other", "200"] == 1_000 - most
    assert list(values(recorder, "meterline_build_info")) == [("other", "embedded", "0.1.0")]


def test_a_role_exports_its_own_metrics_only() -> None:
    gateway = PrometheusRecorder("ingest")
    gateway.count(metrics.INGEST_EVENTS, 5, "accepted")
    gateway.observe(metrics.FLUSH_SECONDS, 1.0)  # told by nobody there; dropped
    assert values(gateway, "meterline_ingest_events_total")["accepted",] == 5
    assert not values(gateway, "meterline_flush_seconds_count")


def test_what_is_not_known_is_no_number() -> None:
    recorder = PrometheusRecorder()
    assert math.isnan(values(recorder, "meterline_freshness_seconds")[()])
    recorder.set(metrics.FRESHNESS_SECONDS, 11.5)
    assert values(recorder, "meterline_freshness_seconds") == {(): 11.5}
    recorder.set(metrics.FRESHNESS_SECONDS, None)
    assert math.isnan(values(recorder, "meterline_freshness_seconds")[()])


@pytest.mark.parametrize("metric", metrics.DECLARED, ids=lambda it: it.name)
def test_names_follow_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"meterline(_[a-z]+)+", metric.name)
    assert metric.meaning.endswith(".")
    assert not {label.name for label in metric.labels} & {
        *("subject", "id", "namespace", "key", "source", "endpoint", "report", "meter", "le")
    }
    if metric.kind is Kind.HISTOGRAM:
        assert list(metric.buckets) == sorted(set(metric.buckets))


def test_metrics_are_declared_once() -> None:
    names = [it.name for it in metrics.DECLARED]
    assert len(names) == len(set(names))


OPERATIONS, STATUSES = st.sampled_from(("list-meters", "other")), st.sampled_from(("200", "404"))


@given(st.lists(st.tuples(OPERATIONS, STATUSES, st.floats(0, 100)), max_size=20))
def test_what_is_told_by_series_is_what_is_told_by_labels(
    requests: list[tuple[str, str, float]],
) -> None:
    one, other = PrometheusRecorder(), PrometheusRecorder()
    for operation, status, took_s in requests:
        one.count(metrics.HTTP_REQUESTS, 1, operation, status)
        one.observe(metrics.HTTP_SECONDS, took_s, operation)
        one.count(metrics.INGEST_EVENTS, 3, "accepted")
        one.observe(metrics.APPEND_SECONDS, took_s)
        other.timer(metrics.HTTP_REQUESTS, metrics.HTTP_SECONDS, operation, status)(took_s)
        other.counter(metrics.INGEST_EVENTS, "accepted")(3)
        other.observer(metrics.APPEND_SECONDS)(took_s)
    assert told(one) == told(other)


def told(recorder: PrometheusRecorder) -> list[str]:
    """The lines of our own metrics, without what Python tells of the process."""
    text, _ = recorder.exposition("")
    return [line for line in text.decode().splitlines() if line.startswith("meterline_")]


def test_a_series_keeps_the_bounds_of_its_labels_and_of_its_role() -> None:
    recorder = PrometheusRecorder("ingest")
    recorder.counter(metrics.INGEST_EVENTS, "customer-1")(2)
    assert values(recorder, "meterline_ingest_events_total")["other",] == 2
    recorder.observer(metrics.FLUSH_SECONDS)(1.0)  # told by nobody there; dropped
    assert not values(recorder, "meterline_flush_seconds_count")


def test_nobody_needs_to_listen() -> None:
    SILENT.count(metrics.RUNS_DECIDED, 1)
    SILENT.counter(metrics.RUNS_DECIDED)(1)
    SILENT.observer(metrics.FLUSH_SECONDS)(1.0)
    SILENT.timer(metrics.HTTP_REQUESTS, metrics.HTTP_SECONDS, "op", "200")(1.0)
    SILENT.observe(metrics.FLUSH_SECONDS, 1.0)
    SILENT.set(metrics.READY, None)
    assert values(PrometheusRecorder(), "meterline_runs_decided_total") == {(): 0.0}


def test_histograms_are_cumulative_and_bounds_are_inclusive() -> None:
    recorder = PrometheusRecorder()
    for value in (1, 1, 2, 3, 500, 501):
        recorder.observe(metrics.PACK_EVENTS, value)
    buckets = values(recorder, "meterline_ingest_pack_events_bucket")
    assert buckets["1",] == 2
    assert buckets["2",] == 3
    assert buckets["5",] == 4
    assert buckets["250",] == 4
    assert buckets["500",] == 5
    assert buckets["+Inf",] == 6
    assert values(recorder, "meterline_ingest_pack_events_sum") == {(): 1_008}


def test_no_thread_loses_what_another_counts() -> None:
    recorder = PrometheusRecorder()
    count, observe = recorder.counter(metrics.STRAYS), recorder.observer(metrics.PACK_EVENTS)
    time = recorder.timer(metrics.HTTP_REQUESTS, metrics.HTTP_SECONDS, "op", "200")

    def tell() -> None:
        for _ in range(20_000):
            recorder.count(metrics.RUNS_DECIDED, 1)
            recorder.observe(metrics.APPEND_SECONDS, 0.25)
            count(2)
            observe(5)
            time(0.25)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    tell()
    for thread in threads:
        thread.join()
    assert values(recorder, "meterline_runs_decided_total") == {(): 100_000}
    assert values(recorder, "meterline_ingest_append_seconds_count") == {(): 100_000}
    assert values(recorder, "meterline_ingest_append_seconds_sum") == {(): 25_000}
    assert values(recorder, metrics.STRAYS.name) == {(): 200_000}
    assert values(recorder, "meterline_ingest_pack_events_sum") == {(): 500_000}
    assert values(recorder, "meterline_http_requests_total") == {("op", "200"): 100_000}
    assert values(recorder, "meterline_http_request_seconds_sum") == {("op",): 25_000}


def test_openmetrics_shows_the_latest_trace_of_each_bucket() -> None:
    recorder = PrometheusRecorder()
    for took_s, trace in ((0.03, "a"), (0.04, "b"), (9.0, "c"), (700.0, "d")):
        recorder.observe(metrics.HTTP_SECONDS, took_s, "op")
        recorder.exemplify(metrics.HTTP_SECONDS, took_s, trace, "op")
    recorder.exemplify(metrics.HTTP_SECONDS, 1.0, "e", "never observed")
    PrometheusRecorder("aggregate", ()).exemplify(metrics.HTTP_SECONDS, 1.0, "f", "op")
    text, _ = recorder.exposition(OPEN)
    found = {
        sample.labels["le"]: (sample.exemplar.labels["trace_id"], sample.exemplar.value)
        for family in openmetrics(text.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert found == {"0.1": ("b", 0.04), "10": ("c", 9.0), "+Inf": ("d", 700.0)}
    assert b"trace_id" not in recorder.exposition("")[0]
