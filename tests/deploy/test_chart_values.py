"""What the chart refuses, and in which words; and what it takes over from the rest of deploy/."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.deploy.helm import NAMESPACE, ROOT, VALUES, of_kind, rendered, template
from tests.unit.observe.test_names import parts

LARGE, SMALLEST = VALUES[0], VALUES[-1]
OBSERVE = ROOT / "deploy/observe"
RULES: dict[str, Any] = yaml.safe_load((OBSERVE / "alerts.yaml").read_text())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["settings.usage_url=http://clickhouse:8123"], "remove one of them"),
        (["aggregate.replicas=9"], "9 aggregators for 8 partitions"),
        (["settings.partitions=4", "aggregate.replicas=5"], "5 aggregators for 4 partitions"),
        (["aggregate.autoscaling.enabled=true"], "set aggregate.autoscaling.prometheus"),
        (["ingress.enabled=true"], "set ingress.hosts.ingest"),
        (["settings.log_topik=events"], "'log_topik' not allowed"),
        (["settings.secret_key=secret"], "'secret_key' not allowed"),
        (["settings.port=80"], "'port' not allowed"),
        (["settings.partitions=many"], "got string, want integer"),
        (["settings.partitions=2000"], "maximum: got 2,000, want 1,024"),
        (["settings.access_mode=key"], "value must be one of 'none', 'keys'"),
        (["settings.access_mode=none"], "set settings.public_without_keys to true instead"),
        (["settings.access_mode=null"], "Set settings.access_mode to keys"),
        (
            ["settings.access_mode=none", "settings.public_without_keys=false"],
            "settings.access_mode is none",
        ),
        (["secretSettings.secret_key.key="], "/secretSettings/secret_key"),
        (["ingest.replica=3"], "'replica' not allowed"),
        (["image.digest=latest"], "/image/digest"),
        (["extraEnv[0].name=METERLINE_PORT", "extraEnv[0].value=a"], "/extraEnv/0/name"),
        (["extraEnv[0].name=A"], "/extraEnv/0"),
        (["extraEnv[0].value=a"], "missing property 'name'"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_a_value_that_is_wrong_is_refused(given: list[str], words: str) -> None:
    sets = [part for one in given for part in ("--set", one)]
    done = template("--values", str(SMALLEST), *sets)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("log_url", "set secretSettings.log_url to the name and key of a secret that exists"),
        ("usage_url", "that exists, or settings.usage_url"),
        ("control_url", "that exists, or settings.control_url"),
        ("secret_key", "set secretSettings.secret_key to the name and key of a secret"),
    ],
)
def test_a_setting_that_is_missing_is_named(missing: str, words: str) -> None:
    needed = ["log_url", "usage_url", "control_url", "secret_key"]
    sets = [
        part
        for name in needed
        if name != missing
        for part in ("--set", f"secretSettings.{name}.name=meterline,secretSettings.{name}.key=k")
    ]
    done = template(*sets)
    assert done.returncode != 0
    assert f"{missing} is missing" in done.stderr
    assert words in done.stderr


def test_an_older_kubernetes_is_refused() -> None:
    done = template("--values", str(SMALLEST), "--kube-version", "1.30.0")
    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.30.0" in done.stderr


def test_alert_rules_are_those_of_the_repository() -> None:
    (found,) = of_kind(LARGE, "PrometheusRule").values()
    made = copy.deepcopy(found)
    base = "https://docs.example.com/meterline"
    text = json.dumps(RULES).replace('runbook": "docs/', f'runbook": "{base}/')
    ours = f'namespace="{NAMESPACE}"'
    for rule in (one for group in made["spec"]["groups"] for one in group["rules"]):
        of_series = list(map(str, series(promql_parser.parse(rule["expr"]))))
        assert [ours in one for one in of_series] == [True] * len(of_series)
        assert of_series
        assert rule["labels"].pop("namespace") == NAMESPACE, "or it would not say whose alert it is"
        rule["expr"] = rule["expr"].replace(f"{ours},", "").replace(f"{{{ours}}}", "")
    assert made["spec"] == json.loads(text)
    runbooks = {r["annotations"]["runbook"] for g in made["spec"]["groups"] for r in g["rules"]}
    assert all(one.startswith(f"{base}/alerts.md#") for one in runbooks)


def series(query: Any) -> Iterator[Any]:
    """All that an expression reads."""
    return (one for one in parts(query) if isinstance(one, promql_parser.VectorSelector))


def test_rules_are_of_all_that_is_scraped_where_the_chart_does_not_say_what() -> None:
    on = ["--set", "monitoring.rules.enabled=true"]
    done = template("--values", str(SMALLEST), *on)
    (made,) = (it for it in yaml.safe_load_all(done.stdout) if it["kind"] == "PrometheusRule")
    assert made["spec"] == RULES


def test_the_dashboard_is_that_of_the_repository() -> None:
    (made,) = (one for one in rendered(LARGE) if one["kind"] == "ConfigMap")
    assert json.loads(made["data"]["meterline.json"]) == json.loads(
        (OBSERVE / "dashboard.json").read_text()
    )
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_no_secret_is_made_and_none_is_in_a_value() -> None:
    for values in VALUES:
        for one in rendered(values):
            assert one["kind"] != "Secret"
            assert "secret_key" not in str(one.get("data", ""))
