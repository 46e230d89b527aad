"""The alert rules fire on recorded series when they should, and clear. Promtool reads the same
files: `promtool test rules deploy/observe/alerts_test.yaml`.
"""

from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.unit.observe.promql import Labels, Recorded, expanded, labels_of, seconds

FOLDER = Path(__file__).resolve().parents[3] / "deploy/observe"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())
STEP_S = seconds(FILE["evaluation_interval"])


def recorded(test: dict[str, Any]) -> Recorded:
    apart_s = seconds(test["interval"])
    return Recorded(
        {
            labels_of(one["series"]): [
                (float(turn * apart_s), value) for turn, value in enumerate(expanded(one["values"]))
            ]
            for one in test["input_series"]
        }
    )


def firing(rule: dict[str, Any], series: Recorded, at_s: int) -> set[Labels]:
    """The labels of the alerts of a rule that fire at a second."""
    expression = promql_parser.parse(rule["expr"])
    wait_s = seconds(rule.get("for", "0s"))
    since: dict[Labels, int] = {}
    for now_s in range(0, at_s + 1, STEP_S):
        found = series.value(expression, float(now_s))
        assert isinstance(found, dict)
        active = {frozenset(one for one in labels if one[0] != "__name__") for labels in found}
        since = {labels: since.get(labels, now_s) for labels in active}
    own = frozenset(rule["labels"].items())
    return {labels | own for labels, began_s in since.items() if at_s - began_s >= wait_s}


@pytest.mark.parametrize("test", FILE["tests"], ids=lambda it: it["name"])
def test_alerts_fire_and_clear(test: dict[str, Any]) -> None:
    series = recorded(test)
    for case in test["alert_rule_test"]:
        rule = RULES[case["alertname"]]
        expected = case.get("exp_alerts", [])
        found = firing(rule, series, seconds(case["eval_time"]))
        assert found == {frozenset(one["exp_labels"].items()) for one in expected}, case
        for one in expected:
            assert one["exp_annotations"]["runbook"] == rule["annotations"]["runbook"]


@pytest.mark.parametrize("alert", RULES)
def test_every_alert_is_seen_firing_and_silent(alert: str) -> None:
    cases = [
        bool(case.get("exp_alerts"))
        for test in FILE["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == alert
    ]
    assert set(cases) == {True, False}


def test_the_evaluator_computes_as_prometheus_does() -> None:
    """Figures of Prometheus' own documentation and tests of `increase` and `rate`."""
    series = {labels_of('a{x="1"}'): [(float(at), 10.0 * at / 5) for at in range(0, 3_001, 5)]}
    value = Recorded(series).value(promql_parser.parse("increase(a[50s])"), 3_000.0)
    assert value == {frozenset({("x", "1")}): 100.0}
    value = Recorded(series).value(promql_parser.parse("rate(a[50s])"), 3_000.0)
    assert value == {frozenset({("x", "1")}): 2.0}
    began_anew = {labels_of("a"): [(0.0, 8.0), (10.0, 10.0), (20.0, 3.0), (30.0, 4.0)]}
    value = Recorded(began_anew).value(promql_parser.parse("increase(a[30s])"), 30.0)
    assert value == {frozenset(): 6.0}
