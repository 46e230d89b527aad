"""Panels of a dashboard of Grafana, and what each of them shows of recorded series."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import promql_parser

from tests.faults.pictures.recording import JOB
from tests.unit.observe.promql import Labels, Recorded

# As Grafana fills them in for one installation that is scraped every 15 seconds.
VARIABLES: Final = {"$job": JOB, "$namespace": "", "$__rate_interval": "60s"}
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a panel is: of 24 columns, and rows of its section."""

    x: int
    y: int
    w: int
    h: int


@dataclass(frozen=True, slots=True)
class Target:
    """An expression, and how its lines are named."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel as the JSON has it. `units`: of lines that have one of their own, by name;
    `thresholds`: from which value on it has which colour.
    """

    title: str
    kind: str
    place: Place
    unit: str
    targets: tuple[Target, ...]
    units: Mapping[str, str]
    thresholds: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the dashboard, with the panels below it."""

    title: str
    panels: tuple[Panel, ...]

    @property
    def height(self) -> int:
        """Rows of the grid."""
        return max((one.place.y + one.place.h for one in self.panels), default=0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a panel: no point where there is no value."""

    name: str
    unit: str
    points: Points


def sections(dashboard: Mapping[str, Any]) -> list[Section]:
    """All rows with their panels, in order."""
    found: list[tuple[str, int, list[Any]]] = []
    for one in dashboard["panels"]:
        if one["type"] == "row":
            found.append((one["title"], one["gridPos"]["y"] + 1, []))
        else:
            found[-1][2].append(one)
    return [Section(title, tuple(_panel(it, top) for it in of)) for title, top, of in found]


def _panel(shown: Mapping[str, Any], top: int) -> Panel:
    place, defaults = shown["gridPos"], shown["fieldConfig"]["defaults"]
    units = {
        override["matcher"]["options"]: change["value"]
        for override in shown["fieldConfig"]["overrides"]
        for change in override["properties"]
        if change["id"] == "unit"
    }
    steps = defaults.get("thresholds", {}).get("steps", ())
    return Panel(
        shown["title"],
        shown["type"],
        Place(place["x"], place["y"] - top, place["w"], place["h"]),
        defaults["unit"],
        tuple(Target(it["expr"], it["legendFormat"]) for it in shown["targets"]),
        units,
        tuple((-math.inf if it["value"] is None else it["value"], it["color"]) for it in steps),
    )


def filled_in(expression: str) -> str:
    """An expression with the variables of the dashboard filled in."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def lines(panel: Panel, recorded: Recorded, moments: Sequence[float]) -> list[Line]:
    """What a panel shows at these moments, in Grafana's order."""
    return [line for target in panel.targets for line in _of(target, panel, recorded, moments)]


def _of(
    target: Target, panel: Panel, recorded: Recorded, moments: Sequence[float]
) -> Iterator[Line]:
    expression = filled_in(target.expression)
    parsed = promql_parser.parse(expression)
    series = recorded.of(re.findall(r"[a-z_]{2,}", expression))
    found: dict[Labels, list[tuple[float, float]]] = {}
    for at_s in moments:
        value = series.value(parsed, at_s)
        assert isinstance(value, dict), f"{panel.title}: {expression} is a number"
        for labels, one in value.items():
            if math.isfinite(one):
                found.setdefault(labels, []).append((at_s, one))
    for labels in sorted(found, key=sorted):
        name = named(target.legend, labels)
        yield Line(name, panel.units.get(name, panel.unit), found[labels])


def named(legend: str, labels: Labels) -> str:
    """The name of a line, from the labels that it has."""
    known = dict(labels)
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda it: known.get(it[1], ""), legend).strip()
