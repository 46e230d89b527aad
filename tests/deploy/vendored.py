"""Make the schemas in `schemas/` anew, from packages that publish them.

    python -m tests.deploy.vendored COMPOSE KUBERNETES KEDA MONITORING

- `COMPOSE`: `schemas/compose.schema.json` of the npm package `dclint`
- `KUBERNETES`: the folder `kubernetes-json-schema` of the Python package `kubernetes-validate`
- `KEDA`: `config/crd/bases` of the Go module `github.com/kedacore/keda/v2`
- `MONITORING`: `example/prometheus-operator-crd` of the Go module
  `github.com/prometheus-operator/prometheus-operator`

Kept is what is used here, without descriptions.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).with_name("schemas")
VERSIONS: Final = ("1.31.0", "1.37.0")  # the oldest that the chart takes, and the newest there is
KINDS: Final = {
    ("apps/v1", "Deployment"): "io.k8s.api.apps.v1.Deployment",
    ("apps/v1", "StatefulSet"): "io.k8s.api.apps.v1.StatefulSet",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): (
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"
    ),
    ("batch/v1", "Job"): "io.k8s.api.batch.v1.Job",
    ("networking.k8s.io/v1", "Ingress"): "io.k8s.api.networking.v1.Ingress",
    ("networking.k8s.io/v1", "NetworkPolicy"): "io.k8s.api.networking.v1.NetworkPolicy",
    ("policy/v1", "PodDisruptionBudget"): "io.k8s.api.policy.v1.PodDisruptionBudget",
    ("v1", "ConfigMap"): "io.k8s.api.core.v1.ConfigMap",
    ("v1", "Service"): "io.k8s.api.core.v1.Service",
    ("v1", "ServiceAccount"): "io.k8s.api.core.v1.ServiceAccount",
}
OF_OTHERS: Final = {
    "keda.sh_scaledobjects.yaml": ("keda.sh/v1alpha1", "ScaledObject"),
    "monitoring.coreos.com_servicemonitors.yaml": ("monitoring.coreos.com/v1", "ServiceMonitor"),
    "monitoring.coreos.com_prometheusrules.yaml": ("monitoring.coreos.com/v1", "PrometheusRule"),
}


def kubernetes(folder: Path, version: str) -> dict[str, Any]:
    """The definitions that the kinds need; a property that is not there is refused."""
    every = json.loads((folder / f"v{version}-local-strict/_definitions.json").read_text())["$defs"]
    found: dict[str, Any] = {}
    wanted = sorted(KINDS.values())
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _bare(every[name])
            wanted += sorted(set(_referred(every[name])))
    return {"$defs": dict(sorted(found.items()))}


def of_others(folders: list[Path]) -> dict[str, Any]:
    """The kinds that operators add, strict as a server with field validation is."""
    found = {}
    for file, (version, kind) in OF_OTHERS.items():
        (path,) = (folder / file for folder in folders if (folder / file).exists())
        versions = yaml.safe_load(path.read_text())["spec"]["versions"]
        (schema,) = (
            one["schema"]["openAPIV3Schema"]
            for one in versions
            if one["name"] == version.split("/")[1]
        )
        found[kind] = _closed(_bare(schema))
    return {"$defs": found}


def compose(file: Path) -> dict[str, Any]:
    """The whole schema of compose files."""
    schema = json.loads(file.read_text())
    definitions = schema.pop("definitions")
    return {**_bare(schema), "$defs": _properties(definitions)}


def _referred(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(target)}:
            yield _name(target)
        case dict():
            for one in schema.values():
                yield from _referred(one)
        case list():
            for one in schema:
                yield from _referred(one)


def _name(target: str) -> str:
    return target.rpartition("/")[2]


def _bare(schema: Any) -> Any:
    """Without descriptions, formats that only a server knows, and other files."""
    match schema:
        case {"$ref": str(target)}:
            return {"$ref": f"#/$defs/{_name(target)}"}
        case dict():
            return {
                key: _properties(one) if _named(key, one) else _bare(one)
                for key, one in schema.items()
                if _named(key, one) or not (key in _DROPPED or key.startswith("x-kubernetes-"))
            }
        case list():
            return [_bare(one) for one in schema]
    return schema


_DROPPED: Final = ("description", "format", "$schema", "$id", "title", "default")


def _named(key: str, schema: Any) -> bool:
    """Whether what is below are properties: one of them may have the name of a keyword."""
    return key in ("properties", "patternProperties") and isinstance(schema, dict)


def _properties(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _bare(one) for name, one in schemas.items()}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(one) for key, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
        if not {"apiVersion", "kind"} - made["properties"].keys():
            made["properties"]["metadata"] = {"type": "object"}
    return made


def _write(name: str, schema: dict[str, Any]) -> None:
    (FOLDER / name).write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    file, *given = [Path(one) for one in sys.argv[1:]]
    _write("compose.json", compose(file))
    for one in VERSIONS:
        _write(f"kubernetes-{one}.json", kubernetes(given[0], one))
    _write("operators.json", of_others(given[1:]))
