"""The alert rules, and when they fire: as Prometheus evaluates them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from tests.unit.observe.promql import Labels, Recorded, seconds

FOLDER = Path(__file__).resolve().parents[3] / "deploy/observe"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}


def evaluated(
    rule: dict[str, Any], series: Recorded, from_s: int, to_s: int, step_s: int
) -> Iterator[tuple[int, set[Labels]]]:
    """The labels of the alerts of a rule that fire at each evaluation in a span of seconds."""
    expression = promql_parser.parse(rule["expr"])
    wait_s = seconds(rule.get("for", "0s"))
    own = frozenset(rule["labels"].items())
    since: dict[Labels, int] = {}
    for now_s in range(from_s, to_s + 1, step_s):
        found = series.value(expression, float(now_s))
        assert isinstance(found, dict)
        active = {frozenset(one for one in labels if one[0] != "__name__") for labels in found}
        since = {labels: since.get(labels, now_s) for labels in active}
        yield (
            now_s,
            {labels | own for labels, began_s in since.items() if now_s - began_s >= wait_s},
        )


def firing(rule: dict[str, Any], series: Recorded, at_s: int, step_s: int) -> set[Labels]:
    """The labels of the alerts of a rule that fire at a second."""
    *_, (_, found) = evaluated(rule, series, 0, at_s, step_s)
    return found
