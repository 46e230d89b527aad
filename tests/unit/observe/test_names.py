"""What rules and panels ask for is what the code exports, and each alert has its page."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest

from meterline.ports import Kind, Label, metrics
from tests.unit.observe.promql import labels_of
from tests.unit.observe.rules import FOLDER, RULES
from tests.unit.observe.test_rules import FILE

DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS_PAGE = (FOLDER.parents[1] / "docs/alerts.md").read_text()
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
OF_INSTALLATIONS = {"job", "namespace"}
OF_SCRAPES = OF_INSTALLATIONS | {"instance"}
OF_OTHERS = {
    "up",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
QUERIES = [
    *((f"alert {name}", rule["expr"]) for name, rule in RULES.items()),
    *((f"panel {one['title']}", target["expr"]) for one in PANELS for target in one["targets"]),
]


def exported() -> dict[str, tuple[Label, ...]]:
    """Names of all samples, with the labels of their metric."""
    found: dict[str, tuple[Label, ...]] = {}
    for metric in metrics.DECLARED:
        if metric.kind is Kind.HISTOGRAM:
            for ending in OF_HISTOGRAMS:
                found[metric.name + ending] = metric.labels
        else:
            found[metric.name] = metric.labels
    return found


EXPORTED = exported()


def parts(expression: Any) -> Iterator[Any]:
    """An expression and all that is in it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (within := getattr(expression, name, None)) is not None:
            yield from parts(within)
    for within in getattr(expression, "args", None) or ():
        yield from parts(within)


def faults(query: str) -> Iterator[str]:
    """Names and labels that the code does not export."""
    known = set(OF_SCRAPES)
    grouped: set[str] = set()
    for part in parts(promql_parser.parse(query.replace("$__rate_interval", "5m"))):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            grouped |= set(part.modifier.labels)
        if not isinstance(part, promql_parser.VectorSelector):
            continue
        if part.name in OF_OTHERS:
            continue
        if part.name not in EXPORTED:
            yield f"no metric {part.name}"
            continue
        labels = {label.name: label for label in EXPORTED[part.name]}
        known |= labels.keys() | ({"le"} if part.name.endswith("_bucket") else set())
        for one in part.matchers.matchers:
            label = labels.get(one.name)
            if label is None and one.name not in OF_SCRAPES:
                yield f"{part.name} has no label {one.name}"
            elif (
                label
                and label.values
                and not any(re.fullmatch(one.value, value) for value in label.values)
            ):
                yield f"{part.name}: {one.name} is never {one.value}"
    yield from (f"nothing has the label {name}" for name in grouped - known)


@pytest.mark.parametrize(("what", "query"), QUERIES, ids=[what for what, _ in QUERIES])
def test_names_and_labels_are_exported(what: str, query: str) -> None:
    assert not list(faults(query)), what


@pytest.mark.parametrize(
    "query",
    [
        "meterline_nothing",
        'meterline_ingest_events_total{result="accepted"}',
        'meterline_ingest_events_total{outcome="lost"}',
        "sum by (subject) (meterline_ingest_events_total)",
        "meterline_ingest_append_seconds",
    ],
)
def test_a_wrong_name_is_found(query: str) -> None:
    assert list(faults(query))


def test_recorded_series_have_the_labels_that_are_exported() -> None:
    for test in FILE["tests"]:
        for one in test["input_series"]:
            labels = dict(labels_of(one["series"]))
            name = labels.pop("__name__")
            if name not in OF_OTHERS:
                declared = {label.name for label in EXPORTED[name]}
                ours = labels.keys() - OF_INSTALLATIONS
                assert ours == declared | {"instance"}, one["series"]


@pytest.mark.parametrize("alert", RULES)
def test_no_alert_takes_two_installations_together(alert: str) -> None:
    found = list(parts(promql_parser.parse(RULES[alert]["expr"])))
    for part in found:
        if isinstance(part, promql_parser.AggregateExpr):
            assert part.modifier is not None
            assert part.modifier.type is promql_parser.AggModifierType.By
            assert set(part.modifier.labels) >= OF_INSTALLATIONS


@pytest.mark.parametrize("panel", PANELS, ids=lambda it: it["title"])
def test_a_panel_shows_the_installation_that_is_chosen(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        query = promql_parser.parse(target["expr"].replace("$__rate_interval", "5m"))
        for part in parts(query):
            if isinstance(part, promql_parser.VectorSelector):
                asked = {(one.name, one.value) for one in part.matchers.matchers}
                assert asked >= {(name, f"${name}") for name in OF_INSTALLATIONS}, target


def test_one_installation_is_chosen_of_those_that_have_metrics() -> None:
    """Never several: without the label, as outside Kubernetes, Grafana chooses what has none."""
    found = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    assert {one["name"] for one in found} == OF_INSTALLATIONS
    for one in found:
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
        assert asked is not None
        assert asked[2] == one["name"]
        assert not list(faults(asked[1]))
        assert not one.get("includeAll")
        assert not one.get("multi")


@pytest.mark.parametrize("alert", RULES)
def test_each_alert_has_a_section_that_says_what_to_do(alert: str) -> None:
    rule = RULES[alert]
    assert rule["annotations"]["runbook"] == f"docs/alerts.md#{alert.lower()}"
    section = ALERTS_PAGE.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]
    assert section.strip().startswith(f"*{rule['labels']['severity']}.*"), alert
    assert "\n1. " in section


def test_there_is_no_section_without_its_alert() -> None:
    assert re.findall(r"^## (.+)$", ALERTS_PAGE, re.MULTILINE) == list(RULES)


def test_panels_are_told_apart_and_do_not_overlap() -> None:
    titles = [one["title"] for one in PANELS]
    assert len(titles) == len(set(titles))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_panels_show_most_of_what_is_measured() -> None:
    """A metric that no panel and no alert shows is for questions that come up later: few are."""
    text = json.dumps(DASHBOARD) + json.dumps(RULES)
    unseen = [it.name for it in metrics.DECLARED if it.name not in text]
    assert unseen == ["meterline_build_info", "meterline_trace_spans_total"]


A_SECOND = {"reqps", "eps", "cps", "rowsps"}


def told_a_second(query: str) -> bool:
    """Whether it is a rate, and no quotient, quantile or share of the processor."""
    parsed = promql_parser.parse(query.replace("$__rate_interval", "5m"))
    found = [part for part in parts(parsed) if isinstance(part, promql_parser.Call)]
    quotient = any(isinstance(part, promql_parser.BinaryExpr) for part in parts(parsed))
    names = {part.func.name for part in found}
    return "rate" in names and not quotient and not names & {"histogram_quantile"}


@pytest.mark.parametrize("panel", PANELS, ids=lambda it: it["title"])
def test_what_is_a_second_says_so_on_its_axis(panel: dict[str, Any]) -> None:
    if panel["title"] != "Processor" and any(told_a_second(it["expr"]) for it in panel["targets"]):
        assert panel["fieldConfig"]["defaults"]["unit"] in A_SECOND


def test_panels_of_units_that_differ_name_series_that_they_have() -> None:
    for panel in PANELS:
        legends = {target["legendFormat"] for target in panel["targets"]}
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in legends, panel["title"]
