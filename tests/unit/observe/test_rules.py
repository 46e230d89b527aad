"""The alert rules fire on recorded series when they should, and clear. Promtool reads the same
files: `promtool test rules deploy/observe/alerts_test.yaml`.
"""

from typing import Any

import promql_parser
import pytest
import yaml

from tests.unit.observe.promql import Recorded, expanded, labels_of, seconds
from tests.unit.observe.rules import FOLDER, RULES, firing

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


@pytest.mark.parametrize("test", FILE["tests"], ids=lambda it: it["name"])
def test_alerts_fire_and_clear(test: dict[str, Any]) -> None:
    series = recorded(test)
    for case in test["alert_rule_test"]:
        rule = RULES[case["alertname"]]
        expected = case.get("exp_alerts", [])
        found = firing(rule, series, seconds(case["eval_time"]), STEP_S)
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
