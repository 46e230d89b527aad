"""The files in deploy/ agree with the product: its roles, its settings, its pinned versions."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from docs import chart_schema
from meterline.runtime.cli import main
from meterline.runtime.settings.reading import Settings
from tests.deploy.supply import IMAGE_EXTRAS
from tests.services import container

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ROLES = ["ingest", "aggregate", "dispatch", "control"]
PROCESSES = [f"{role}-{number}" for role in ROLES for number in (1, 2)]
OURS = [*PROCESSES, "migrate"]
SERVERS = ["kafka", "clickhouse", "postgres"]
AROUND = ["proxy", "prometheus", "grafana"]
PREFIX = "METERLINE_"


def filled(text: str) -> str:
    """Replace `${NAME}` and `${NAME:?why}` by a value that is long enough for a key."""
    return re.sub(r"\$\{[A-Z_]+(:\?[^}]*)?\}", "x" * 32, text)


def image_settings() -> dict[str, str]:
    """Return the METERLINE_* variables that the image sets."""
    return dict(re.findall(rf"^\s*(?:ENV )?({PREFIX}\w+)=(\S+)", DOCKERFILE, re.MULTILINE))


def as_settings(variables: dict[str, str]) -> dict[str, str]:
    """Return variables under the names of their settings."""
    return {name.removeprefix(PREFIX).lower(): filled(value) for name, value in variables.items()}


def settings_of(name: str) -> Settings:
    """What a process of this service reads."""
    return Settings.model_validate(
        as_settings({**image_settings(), **SERVICES[name]["environment"]})
    )


def test_every_role_has_two_services_that_run_its_command() -> None:
    assert isinstance(main, click.Group)
    assert set(SERVICES) == {*OURS, *SERVERS, *AROUND}
    for name in OURS:
        (command,) = SERVICES[name]["command"]
        assert name in (command, f"{command}-1", f"{command}-2")
        assert command in main.commands, "a role is a command of the CLI"


@pytest.mark.parametrize("name", OURS)
def test_its_variables_are_settings_that_the_product_takes(name: str) -> None:
    variables = {**image_settings(), **SERVICES[name]["environment"]}
    assert {variable for variable in variables if not variable.startswith(PREFIX)} == set()
    settings = settings_of(name)
    assert not settings.embedded
    assert settings.kafka_servers == "kafka:9092"
    assert settings.secret_key is not None, "processes on several machines need the same key"
    assert settings.host == "0.0.0.0", "in a container, others must reach it"
    assert settings.seen_dir == Path("/data/seen"), "on the volume"


def test_an_aggregator_has_a_name_and_a_volume_that_no_other_has() -> None:
    aggregators = [name for name in OURS if name.startswith("aggregate")]
    assert [settings_of(name).instance_id for name in aggregators] == aggregators
    volumes = [volume for name in aggregators for volume in SERVICES[name]["volumes"]]
    assert len(set(volumes)) == len(aggregators)
    assert {volume.partition(":")[2] for volume in volumes} == {"/data"}


def test_the_addresses_are_those_of_the_services() -> None:
    settings = as_settings(SERVICES["ingest-1"]["environment"])
    for key, service, port in (
        ("log_url", "kafka", 9092),
        ("usage_url", "clickhouse", 8123),
        ("control_url", "postgres", 5432),
    ):
        assert re.search(rf"(//|@){service}:{port}(/|$)", settings[key]), key
        assert service in SERVICES
    assert "PLAINTEXT://kafka:9092" in SERVICES["kafka"]["environment"].values()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_it_comes_back_is_watched_and_keeps_its_data(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] in {"unless-stopped", "on-failure:5"}
    if name in PROCESSES:
        assert "healthcheck" not in service, "the image has one, on /readyz"
        assert service["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    elif name != "migrate":
        assert service["healthcheck"]["test"]
    if name in SERVERS:
        assert SERVICES["migrate"]["depends_on"][name] == {"condition": "service_healthy"}
        assert service["volumes"]
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (ROOT / "deploy" / source).is_file()
            assert volume.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_a_process_of_ours_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - in the container
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    drain = settings_of(name).drain_s
    assert int(service["stop_grace_period"].removesuffix("s")) > drain + 30


def test_only_the_doors_are_open_to_the_outside() -> None:
    ports = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    # Without keys the doors are open to this machine only (contract section 5, rule 3).
    here = "127.0.0.1:"
    assert ports == {
        "proxy": [f"{here}8888:8888", f"{here}8889:8889"],
        "prometheus": [f"{here}9090:9090"],
        "grafana": [f"{here}3000:3000"],
    }
    assert image_settings()["METERLINE_PORT"] == "8888"
    assert "EXPOSE 8888" in DOCKERFILE


def test_the_proxy_leads_to_every_process_that_takes_requests_and_notices_that_one_ends() -> None:
    caddyfile = (ROOT / "deploy/compose/Caddyfile").read_text()
    upstreams = set(re.findall(r"(\S+-\d):8888", caddyfile.replace("{$", " ").replace(":i", " i")))
    assert {one.split(":")[-1] for one in upstreams} == {
        name for name in PROCESSES if name.startswith(("ingest", "control"))
    }
    (interval,) = re.findall(r"health_interval (\d+)s", caddyfile)
    assert settings_of("ingest-1").drain_s > 2 * int(interval)
    assert "health_uri /readyz" in caddyfile


def test_prometheus_asks_every_process_under_the_name_that_the_rules_expect() -> None:
    config = yaml.safe_load((ROOT / "deploy/compose/prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "meterline"
    (targets,) = job["static_configs"]
    assert sorted(targets["targets"]) == [f"{name}:8888" for name in sorted(PROCESSES)]
    mounted = [volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]]
    assert config["rule_files"] == ["/etc/prometheus/alerts.yaml"]
    assert set(config["rule_files"]) < set(mounted)


def test_grafana_shows_the_dashboard() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    providers = yaml.safe_load((ROOT / "deploy/compose/grafana-dashboards.yaml").read_text())
    (provider,) = providers["providers"]
    assert mounts["./observe/dashboard.json"].startswith(f"{provider['options']['path']}/")
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == mounts["./observe/dashboard.json"]
    sources = yaml.safe_load((ROOT / "deploy/compose/grafana-datasource.yaml").read_text())
    (source,) = sources["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_servers_are_the_versions_that_are_tested() -> None:
    assert SERVICES["kafka"]["image"] == container.KAFKA_IMAGE
    assert SERVICES["clickhouse"]["image"] == container.CLICKHOUSE_IMAGE
    assert SERVICES["postgres"]["image"] == container.POSTGRES_IMAGE


def test_every_image_has_an_exact_tag() -> None:
    """`docs/operations.md` says how to name them by digests, which need a registry to be known."""
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}
    named = {base, *(service["image"] for service in SERVICES.values())}
    assert len(named) == 1 + 1 + len([*SERVERS, *AROUND]), "the base, ours, and all others"
    parts = {name: name.rpartition(":")[2].removeprefix("v").split("-")[0] for name in named}
    least = {name: 2 if name.startswith("postgres:") else 3 for name in named}  # 18.4 is exact
    inexact = [
        name
        for name, version in parts.items()
        if not re.fullmatch(r"\d+(\.\d+)+", version) or version.count(".") + 1 < least[name]
    ]
    assert inexact == []


def test_the_image_is_built_as_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    version = project["project"]["version"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"meterline:{version}"}
    copied = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    assert copied == set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    makefile = (ROOT / "Makefile").read_text()
    (pinned,) = re.findall(r"^UV_VERSION := (\S+)$", makefile, re.MULTILINE)
    assert f"uv=={pinned} " in DOCKERFILE
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE), "not root"
    assert "chdb" not in " ".join(project["project"]["dependencies"]), "an extra"
    assert "embedded" in str(project["project"]["optional-dependencies"]["dev"])
    assert set(re.findall(r"--extra (\w+)", DOCKERFILE)) == IMAGE_EXTRAS


def test_the_chart_has_the_version_the_settings_and_the_alerts_of_the_product() -> None:
    chart = ROOT / "deploy/helm/meterline"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (version, version)
    schema = chart_schema.PLACE.read_text("utf-8")
    assert schema == chart_schema.made(schema), "run `python -m docs.chart_schema`"
    for name in ("alerts.yaml", "dashboard.json"):
        copied, kept = chart / "files" / name, ROOT / "deploy/observe" / name
        assert copied.read_text() == kept.read_text(), f"cp {kept} {copied}"
