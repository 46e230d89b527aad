"""The settings in `deploy/helm/meterline/values.schema.json`: their names, types and bounds are
those of the product, so a wrong one is refused before anything is installed.

`python -m docs.chart_schema` makes them anew; tests/unit/test_deploy.py fails where they differ.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from meterline.runtime.settings.fields import Settings

PLACE: Final = (
    Path(__file__).resolve().parents[1] / "deploy" / "helm" / "meterline" / "values.schema.json"
)
OF_THE_CHART: Final = frozenset(
    {"data_dir", "host", "port", "metrics_port", "drain_s", "seen_dir", "instance_id"}
)
"""What the chart sets by itself: values of their own, or what the volumes and ports ask for."""

SECRET_ONLY: Final = frozenset({"secret_key"})
"""Not in a file of values, whatever it costs."""

_KEPT: Final = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "pattern")


def settings_schema() -> dict[str, Any]:
    """`settings`: each with its type and bounds, as far as one value tells them."""
    found = Settings.model_json_schema()["properties"]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _schema(one)
            for name, one in found.items()
            if name not in OF_THE_CHART | SECRET_ONLY
        },
    }


def secret_settings_schema() -> dict[str, Any]:
    """`secretSettings`: each is the name of a secret, and a key in it."""
    names = sorted(Settings.model_fields.keys() - OF_THE_CHART)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"$ref": "#/definitions/reference"} for name in names},
    }


def _schema(one: Mapping[str, Any]) -> dict[str, Any]:
    given = [part for part in one.get("anyOf", [one]) if part.get("type") != "null"]
    if len(given) != 1:
        return {"description": one["description"]}
    kept = {key: given[0][key] for key in _KEPT if key in given[0]}
    return {**kept, "description": one["description"]}


def made(text: str) -> str:
    """The file with the settings as they are."""
    schema = json.loads(text)
    schema["definitions"]["settings"] = settings_schema()
    schema["definitions"]["secretSettings"] = secret_settings_schema()
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    PLACE.write_text(made(PLACE.read_text("utf-8")), "utf-8")
