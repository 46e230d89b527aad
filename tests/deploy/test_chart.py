"""The chart, rendered by helm for five files of values: Kubernetes takes what it makes, and the
product finds there what it needs.
"""

import copy
import math
from pathlib import Path
from typing import Any

import click
import promql_parser
import pytest

from meterline.ports import metrics
from meterline.runtime.cli import main
from meterline.runtime.settings.fields import ENV_PREFIX
from meterline.runtime.settings.reading import Settings, load_settings
from tests.deploy.helm import CHART, NAMESPACE, OLDEST, VALUES, helm_run, of_kind, pods, rendered
from tests.deploy.objects import faults
from tests.unit.observe.promql import Recorded, labels_of

LARGE, METERS, ONE, RENAMED, SMALLEST = VALUES
ROLES = {"ingest", "control", "dispatch", "aggregate"}
OF_SECRETS = {
    "METERLINE_USAGE_URL": "https://meterline:secret@clickhouse:8443/meterline",
    "METERLINE_CONTROL_URL": "postgresql://meterline:secret@postgres:5432/meterline",
    "METERLINE_SECRET_KEY": "0123456789abcdef0123456789abcdef",
    "METERLINE_WEBHOOK_PROXY": "http://proxy:3128",
}
DNS_LABEL_CHARS_MAX = 63

files = pytest.mark.parametrize("values", VALUES, ids=lambda it: it.stem)


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """As Kubernetes compares labels, with the operator that the chart uses."""
    expressions = selector.get("matchExpressions", [])
    assert {one["operator"] for one in expressions} <= {"In"}
    wanted = selector.get("matchLabels", selector if not expressions else {})
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


def selected(values: Path, selector: dict[str, Any]) -> set[str]:
    """The roles whose pods a selector means."""
    return {
        role for role, pod in pods(values).items() if matches(selector, pod["metadata"]["labels"])
    }


@files
def test_helm_finds_nothing_wrong(values: Path) -> None:
    done = helm_run(
        "lint", "--chart", str(CHART), "--values", str(values), "--kube-version", OLDEST
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@files
def test_every_object_is_one_that_kubernetes_takes(values: Path) -> None:
    assert [fault for one in rendered(values) for fault in faults(one)] == []
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered(values)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= DNS_LABEL_CHARS_MAX for _, name in names)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ["spec", "template", "spec", "enableServicelinks"], False),
        ("StatefulSet", ["spec", "volumeClaimTemplates"], {}),
        ("NetworkPolicy", ["spec", "podSelector", "matchLabels", "name"], 1),
        ("HorizontalPodAutoscaler", ["spec", "maxReplicas"], "20"),
        ("ScaledObject", ["spec", "triggers"], None),
        ("ServiceMonitor", ["spec", "endpoint"], []),
        ("PrometheusRule", ["spec", "groups"], {}),
    ],
)
def test_an_object_that_is_wrong_is_found(kind: str, path: list[str], value: object) -> None:
    one = copy.deepcopy(next(iter(of_kind(LARGE, kind).values())))
    *folders, last = path
    place = one
    for folder in folders:
        place = place[folder]
    place[last] = value
    assert list(faults(one))


@files
def test_each_role_has_its_pods(values: Path) -> None:
    found = pods(values)
    assert found.keys() - {"migrate"} == ROLES
    assert ("migrate" in found) is (values is not RENAMED)
    assert isinstance(main, click.Group)
    for role, pod in found.items():
        assert container(pod)["args"] == [role]
        assert role in main.commands, "a role is a command of the image"
    assert of_kind(values, "StatefulSet").keys() == {"aggregate"}


def read(
    pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "a-0"
) -> Settings:
    """The settings as a process of this pod reads them."""
    monkeypatch.chdir(folder)
    variables = {one["name"]: one for one in container(pod)["env"]}
    assert len(variables) == len(container(pod)["env"]), "none is set twice"
    settings = {name: one for name, one in variables.items() if name.startswith(ENV_PREFIX)}
    for variable, one in settings.items():
        source = one.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"] == {"fieldPath": "metadata.name"}
        value = name if "fieldRef" in source else OF_SECRETS.get(variable, one.get("value"))
        assert ("secretKeyRef" in source) <= (variable in OF_SECRETS), variable
        monkeypatch.setenv(variable, value)
    return load_settings()


@files
def test_its_variables_are_settings_that_the_product_takes(
    values: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for role, pod in pods(values).items():
        with monkeypatch.context() as patch:
            settings = read(pod, patch, tmp_path)
        assert not settings.embedded
        assert (settings.host, settings.port, settings.metrics_port) == ("0.0.0.0", 8888, 9464)
        assert settings.secret_key is not None
        assert settings.instance_id == ("a-0" if role == "aggregate" else "")
        assert settings.seen_dir == Path("/data/seen"), "on the volume"
        assert settings.access_mode == ("none" if values is ONE else "keys")


def test_variables_of_others_are_those_of_every_pod() -> None:
    for pod in pods(LARGE).values():
        assert container(pod)["env"][-2:] == [
            {
                "name": "OTEL_RESOURCE_ATTRIBUTES",
                "value": "deployment.environment.name=production",
            },
            {
                "name": "OTEL_EXPORTER_OTLP_HEADERS",
                "valueFrom": {"secretKeyRef": {"name": "collector", "key": "headers"}},
            },
        ]


def test_values_reach_the_product_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        large = read(pods(LARGE)["ingest"], patch, tmp_path)
    assert large.body_bytes_max == 10_485_760, "no 1.048576e+07"
    assert large.event_past_ms_max == 2_592_000_000
    assert large.retry_delays_s == (0, 5, 0.5)
    assert large.plans["default"].requests is not None
    assert large.limit_shares == 20, "as many as may run"
    with monkeypatch.context() as patch:
        meters = read(pods(METERS)["control"], patch, tmp_path)
    assert [one["key"] for one in meters.meters] == ["tokens"]
    assert meters.inbox_topics == {"orders": "default"}
    assert meters.allowed_hosts == ("meter.example.com",)
    assert meters.limit_shares == 3, "as it is set"


@files
def test_a_pod_may_do_little(values: Path) -> None:
    for pod in pods(values).values():
        spec, one = pod["spec"], container(pod)
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False, "METERLINE_PORT=tcp://... is no port"
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10_001, "as in the Dockerfile"
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert one["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in one["resources"]["limits"]
        written = [m["mountPath"] for m in one["volumeMounts"] if not m.get("readOnly")]
        assert written == ["/data", "/tmp"], "the rest is read only"  # noqa: S108


@files
def test_probes_leave_time_to_start_and_to_drain(
    values: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for role, pod in pods(values).items():
        one = container(pod)
        if role == "migrate":
            assert "readinessProbe" not in one, "it ends"
            continue
        with monkeypatch.context() as patch:
            settings = read(pod, patch, tmp_path)
        paths = {probe: one[probe]["httpGet"]["path"] for probe in one if probe.endswith("Probe")}
        assert paths == {
            "startupProbe": "/healthz",
            "livenessProbe": "/healthz",
            "readinessProbe": "/readyz",
        }
        start, ready = one["startupProbe"], one["readinessProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] > settings.start_timeout_s
        grace = pod["spec"]["terminationGracePeriodSeconds"]
        assert grace >= settings.drain_s + 30
        if role in ("ingest", "control"):
            assert settings.drain_s > ready["periodSeconds"] * ready["failureThreshold"]


@files
def test_an_aggregator_keeps_its_name_and_its_volume(values: Path) -> None:
    aggregate = of_kind(values, "StatefulSet")["aggregate"]["spec"]
    (claim,) = aggregate["volumeClaimTemplates"]
    mounts = container(aggregate["template"])["volumeMounts"]
    assert {"name": claim["metadata"]["name"], "mountPath": "/data"} in mounts
    assert aggregate["podManagementPolicy"] == "Parallel"
    assert "data" not in {one["name"] for one in aggregate["template"]["spec"]["volumes"]}
    service = of_kind(values, "Service")["pods"]
    assert aggregate["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    kept = aggregate["persistentVolumeClaimRetentionPolicy"]
    assert kept == (
        {"whenScaled": "Delete", "whenDeleted": "Retain"}
        if values is METERS
        else {"whenScaled": "Retain", "whenDeleted": "Delete"}
    )


@files
def test_selectors_mean_the_pods_that_they_should(values: Path) -> None:
    for kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
        for role, one in of_kind(values, kind).items():
            assert selected(values, one["spec"]["selector"]) == {role}
    assert of_kind(values, "PodDisruptionBudget").keys() == ROLES
    services = of_kind(values, "Service")
    assert services.keys() == {"ingest", "control", "pods"}
    assert selected(values, services["ingest"]["spec"]["selector"]) == {"ingest"}
    assert selected(values, services["control"]["spec"]["selector"]) == {"control"}
    assert selected(values, services["pods"]["spec"]["selector"]) >= ROLES
    for service in services.values():
        for port in service["spec"]["ports"]:
            for role in selected(values, service["spec"]["selector"]) & ROLES:
                names = {one["name"] for one in container(pods(values)[role])["ports"]}
                assert port["targetPort"] in names


def test_a_migration_comes_first_and_needs_nothing_of_the_chart() -> None:
    hooks = {
        (one["kind"], one["metadata"]["annotations"]["helm.sh/hook-weight"])
        for one in rendered(LARGE)
        if "helm.sh/hook" in one["metadata"].get("annotations", {})
    }
    assert hooks == {("Job", "0"), ("NetworkPolicy", "-5")}
    spec = pods(LARGE)["migrate"]["spec"]
    made = {one["metadata"]["name"] for one in rendered(LARGE)}
    assert spec["serviceAccountName"] not in made
    used = {
        one["valueFrom"]["secretKeyRef"]["name"]
        for one in spec["containers"][0]["env"]
        if "valueFrom" in one
    }
    assert not used & made
    assert pods(METERS)["migrate"]["spec"]["serviceAccountName"] == "billing"


def test_walls_are_around_every_pod() -> None:
    policies = [one["spec"] for one in rendered(LARGE) if one["kind"] == "NetworkPolicy"]
    walls = {
        role: [p for p in policies if role in selected(LARGE, p["podSelector"])]
        for role in pods(LARGE)
    }
    for role, around in walls.items():
        assert {kind for p in around for kind in p["policyTypes"]} == {"Ingress", "Egress"}, role
    entered = {
        role: {
            port["port"] for p in around for rule in p.get("ingress", []) for port in rule["ports"]
        }
        for role, around in walls.items()
    }
    assert entered.pop("migrate") == {"metrics"}, "of the policy that is for all"
    assert entered == {
        "ingest": {"http", "metrics"},
        "control": {"http", "metrics"},
        "dispatch": {"metrics"},
        "aggregate": {"metrics"},
    }
    left = {
        role: {
            port["port"] for p in around for rule in p.get("egress", []) for port in rule["ports"]
        }
        for role, around in walls.items()
    }
    stores = {53, 9092, 8443, 5432}
    assert left.pop("dispatch") == stores | {443}
    assert left.pop("control") == stores | {443}, "it sends test deliveries"
    assert all(ports == stores for ports in left.values())
    assert not [one for one in rendered(ONE) if one["kind"] == "NetworkPolicy"]


def test_what_scales_is_told_by_its_target_alone() -> None:
    deployments, sets = of_kind(LARGE, "Deployment"), of_kind(LARGE, "StatefulSet")
    assert "replicas" not in deployments["ingest"]["spec"]
    assert "replicas" not in sets["aggregate"]["spec"]
    assert deployments["control"]["spec"]["replicas"] == 2
    (hpa,) = of_kind(LARGE, "HorizontalPodAutoscaler").values()
    (scaled,) = of_kind(LARGE, "ScaledObject").values()
    assert hpa["spec"]["scaleTargetRef"]["name"] == deployments["ingest"]["metadata"]["name"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == sets["aggregate"]["metadata"]["name"]
    (trigger,) = scaled["spec"]["triggers"]
    query: Any = promql_parser.parse(trigger["metadata"]["query"])
    found = query.expr.lhs
    assert found.name in {one.name for one in metrics.DECLARED}
    assert [(one.name, one.value) for one in found.matchers.matchers] == [("namespace", NAMESPACE)]
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        assert not of_kind(SMALLEST, kind)


def lags(*seconds: float) -> Recorded:
    """What two processes say of the lag of each partition, and one of another namespace."""
    name = "meterline_log_lag_seconds"
    said = {
        labels_of(f'{name}{{namespace="{NAMESPACE}",instance="{who}",partition="{number}"}}'): one
        for number, one in enumerate(seconds)
        for who in "ab"
    }
    said[labels_of(f'{name}{{namespace="other",instance="c",partition="0"}}')] = 900.0
    return Recorded({labels: [(0.0, value)] for labels, value in said.items()})


@pytest.mark.parametrize(
    ("seconds", "asked_of_two"),
    [
        ([14.0] * 64, 1),
        ([14.0] * 63 + [90.0], 4),
        ([14.0, math.nan], 1),
        ([math.nan, math.nan], None),
    ],
    ids=["all keep up", "one is behind", "one is not known", "nothing is known"],
)
def test_aggregators_are_added_while_a_partition_is_behind(
    seconds: list[float], asked_of_two: int | None
) -> None:
    (scaled,) = of_kind(LARGE, "ScaledObject").values()
    (trigger,) = scaled["spec"]["triggers"]
    about = trigger["metadata"]
    found = lags(*seconds).value(promql_parser.parse(about["query"]), 0.0)
    assert isinstance(found, dict)
    # Kubernetes asks for pods * value / threshold; for an average, pods do not matter
    assert trigger["metricType"] == "Value"
    asked = [math.ceil(2 * lag / float(about["threshold"])) for lag in found.values()]
    assert asked == ([] if asked_of_two is None else [asked_of_two])
    assert about["ignoreNullValues"] == "false", "nothing is changed where nothing is known"


def test_prometheus_finds_the_pods_under_the_name_that_the_rules_expect() -> None:
    (monitor,) = of_kind(LARGE, "ServiceMonitor").values()
    service = of_kind(LARGE, "Service")["pods"]
    assert matches(monitor["spec"]["selector"], service["metadata"]["labels"])
    assert not matches(
        monitor["spec"]["selector"], of_kind(LARGE, "Service")["ingest"]["metadata"]["labels"]
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {one["name"] for one in service["spec"]["ports"]}
    assert {"action": "replace", "targetLabel": "job", "replacement": "meterline"} in endpoint[
        "relabelings"
    ]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
