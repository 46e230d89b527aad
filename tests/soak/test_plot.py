"""The picture of a run shows every series, and its peaks."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.soak.plot import COLOURS, POINTS_MAX, Chart, nice_step, svg

RAMP = [(float(at), float(at)) for at in range(3_600)]


def drawn(*charts: Chart) -> ET.Element:
    return ET.fromstring(svg(charts, "a <run>", 600))  # noqa: S314 - it is our own


def texts(root: ET.Element) -> list[str]:
    return ["".join(it.itertext()) for it in root.findall(".//{*}text")]


def test_every_series_is_a_line_with_its_name() -> None:
    names = [f"role <{number}>" for number in range(9)]
    root = drawn(Chart("memory", dict.fromkeys(names, RAMP)), Chart("nothing", {"empty": []}))
    lines = [it for it in root.findall(".//{*}path") if it.get("fill") == "none"]
    assert len(lines) == 9
    assert {it.get("stroke") for it in lines} == set(COLOURS)
    shown = texts(root)
    assert {"a <run>", "memory", "nothing"} < set(shown)
    for name in names:
        assert f"{name}: 3,599" in shown
    named = [it for it in root.findall(".//{*}text") if (it.text or "").startswith("role")]
    heights = [it.get("y") for it in named]
    assert len(set(heights)) == 9, "no name lies over another"


def test_a_peak_is_drawn() -> None:
    points = [(at, 1.0 if at == 1_234 else 0.0) for at, _ in RAMP]
    root = drawn(Chart("one peak", {"it": points}))
    (line,) = (it for it in root.findall(".//{*}path") if it.get("fill") == "none")
    heights = re.findall(r"[ML][\d.]+ ([\d.]+)", line.get("d", ""))
    assert len(heights) <= POINTS_MAX
    assert len(set(heights)) == 2


def test_nothing_was_measured() -> None:
    assert "memory" in texts(drawn(Chart("memory", {})))


@pytest.mark.parametrize(
    ("greatest", "step"), [(0, 1), (1, 0.5), (3.9, 1), (700, 200), (1_000, 500), (1e9, 5e8)]
)
def test_an_axis_has_round_figures(greatest: float, step: float) -> None:
    assert nice_step(greatest) == pytest.approx(step)
