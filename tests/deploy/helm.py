"""Helm's own linter and engine, at the version of `helm_tool/go.mod`, and what they make of the
chart.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from clients.openapi.tools import go_command, run

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "deploy/helm/meterline"
VALUES: Final = tuple(sorted((CHART / "ci").glob("*.yaml")))
RELEASE: Final = "billing"
NAMESPACE: Final = "metering"
OLDEST: Final = "1.31.0"  # `kubeVersion` of the chart
_MODULE: Final = Path(__file__).with_name("helm_tool")
_PROGRAM: Final = ROOT / ".cache/deploy/helm"


@cache
def helm() -> Path:
    """The program, built if anything changed. It runs for a moment, so it is not made fast."""
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    if not _PROGRAM.exists():
        sys.stderr.write("deploy: go build helm, a minute the first time\n")
    quickly = ("-buildvcs=false", "-gcflags=all=-N -l", "-ldflags=-s -w")
    run([go_command(), "build", *quickly, "-o", str(_PROGRAM), "."], _MODULE)
    return _PROGRAM


def helm_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What helm says of a command; it asks no cluster."""
    return subprocess.run(
        [str(helm()), *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`helm template` of the chart, with more arguments."""
    of_release = ("--release", RELEASE, "--namespace", NAMESPACE, "--kube-version", OLDEST)
    return helm_run("template", "--chart", str(CHART), *of_release, *arguments)


@cache
def rendered(values: Path) -> tuple[dict[str, Any], ...]:
    """The objects that the chart makes of a file of values."""
    done = template("--values", str(values))
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one is not None)


def of_kind(values: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Objects of a kind, by the component that they are of."""
    return {
        one["metadata"]["labels"].get("app.kubernetes.io/component", ""): one
        for one in rendered(values)
        if one["kind"] == kind
    }


def pods(values: Path) -> dict[str, dict[str, Any]]:
    """The template of each role's pods, and of the migration's."""
    found = {}
    for kind in ("Deployment", "StatefulSet", "Job"):
        for role, one in of_kind(values, kind).items():
            found[role] = one["spec"]["template"]
    return found
