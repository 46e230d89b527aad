"""A section of the dashboard as an SVG, in the manner of Grafana: pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tests.faults.pictures.panels import Line, Panel, Points, Section
from tests.faults.pictures.recording import Span
from tests.faults.pictures.units import ticks, written

WIDTH: Final = 1_680
COLUMN: Final = WIDTH / 24
ROW: Final = 38
HEAD: Final = 64  # the title of the section, and its faults
GAP: Final = 4
TITLE: Final = 26
SIDE: Final = 86  # for the figures of an axis
FOOT: Final = 22  # for the times
LEGEND_LINE: Final = 16
LEGEND_SHARE: Final = 0.35  # of a panel: Grafana scrolls what is longer
CHAR: Final = 6.8
TIMES_MAX: Final = 6
# Grafana's own colours.
PALETTE: Final = (
    *("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0"),
    *("#508642", "#cca300", "#447ebc", "#c15c17", "#890f02", "#0a437c", "#6d1f62", "#584477"),
)
NAMED: Final = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
NO_DATA: Final = "#cccccc"


@dataclass(frozen=True, slots=True)
class Times:
    """What the pictures are of: seconds from the first to the last moment, and faults in them."""

    first_s: float
    last_s: float
    step_s: float
    spans: Sequence[Span]

    def part(self, at_s: float) -> float:
        """Where a second is, from 0 to 1."""
        return min(1.0, max(0.0, (at_s - self.first_s) / (self.last_s - self.first_s)))

    def told(self, at_s: float) -> str:
        """Minutes and seconds from the first moment on."""
        minutes, seconds = divmod(round(at_s - self.first_s), 60)
        return f"{minutes}:{seconds:02d}"


@dataclass(frozen=True, slots=True)
class Box:
    """Where something is drawn, in pixels of its panel."""

    left: float
    top: float
    right: float
    bottom: float

    def x(self, part: float) -> float:
        """From the left on."""
        return self.left + part * (self.right - self.left)

    def y(self, part: float) -> float:
        """From the bottom on."""
        return self.bottom - part * (self.bottom - self.top)


def size(section: Section) -> tuple[int, int]:
    """Width and height of its picture."""
    return WIDTH, HEAD + section.height * ROW + GAP


def svg(section: Section, shown: Mapping[str, Sequence[Line]], times: Times) -> str:
    """The picture of a section; `shown` has the lines of each panel, by its title."""
    wide, high = size(section)
    faults = ", ".join(
        f"{name} ({times.told(began)} to {times.told(ended)})" for name, began, ended in times.spans
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}">',
        '<g font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{wide}" height="{high}" fill="#f4f5f5"/>',
        f'<text x="12" y="26" font-size="18">{escape(section.title)}</text>',
        f'<text x="12" y="48">Red: {escape(faults) or "no fault"}</text>',
    ]
    for panel in section.panels:
        place = panel.place
        parts.append(f'<g transform="translate({place.x * COLUMN:.1f} {HEAD + place.y * ROW})">')
        parts += _panel(panel, shown[panel.title], times)
        parts.append("</g>")
    return "\n".join([*parts, "</g></svg>", ""])


def _panel(panel: Panel, lines: Sequence[Line], times: Times) -> Iterator[str]:
    wide, high = panel.place.w * COLUMN - GAP, panel.place.h * ROW - GAP
    yield f'<rect x="2" width="{wide:.1f}" height="{high}" fill="#fff" stroke="#ddd"/>'
    if panel.kind == "stat":
        yield from _stat(panel, lines, times, (wide, high))
    else:
        yield from _graph(lines, times, (wide, high))
    words = escape(panel.title)
    yield f'<text x="10" y="18" font-size="13" font-weight="bold">{words}</text>'


def colour_of(panel: Panel, value: float) -> str:
    """The colour that a value has by the thresholds."""
    return NAMED[[colour for from_value, colour in panel.thresholds if value >= from_value][-1]]


def _stat(
    panel: Panel, lines: Sequence[Line], times: Times, size: tuple[float, float]
) -> Iterator[str]:
    """The last value, as Grafana shows it, and below it the colours of the whole run."""
    wide, high = size
    points = lines[0].points if lines else ()
    fill = colour_of(panel, points[-1][1]) if points else NO_DATA
    words = written(points[-1][1], panel.unit) if points else "No data"
    yield f'<rect x="2" width="{wide:.1f}" height="{high}" fill="{fill}"/>'
    middle = f'x="{wide / 2:.1f}" y="{high / 2 + 14:.1f}" text-anchor="middle"'
    yield f'<text {middle} font-size="34" fill="#fff">{words}</text>'
    if not points:
        return
    strip = Box(8, high - 26, wide - 4, high - 12)
    worst = max(value for _, value in points)
    yield f'<rect x="6" y="{strip.top - 2}" width="{wide - 8:.1f}" height="18" fill="#fff"/>'
    for at_s, value in points:
        x, end = (strip.x(times.part(it)) for it in (at_s, at_s + times.step_s))
        place = f'x="{x:.1f}" y="{strip.top}" width="{end - x + 0.5:.1f}" height="14"'
        yield f'<rect {place} fill="{colour_of(panel, value)}"/>'
    for _, began, ended in times.spans:
        for at_s in (began, ended):
            x = strip.x(times.part(at_s))
            yield f'<path d="M{x:.1f} {strip.top - 4}v22" stroke="#000"/>'
    words = f"greatest: {written(worst, panel.unit)}"
    yield f'<text x="{wide - 6:.1f}" y="{strip.top - 6}" text-anchor="end">{words}</text>'


def _graph(lines: Sequence[Line], times: Times, size: tuple[float, float]) -> Iterator[str]:
    """Lines over time with an axis for each unit: the first at the left, others at the right."""
    wide, high = size
    units = list(dict.fromkeys(line.unit for line in lines))
    rows, legend = _legend(lines, wide - 20, high)
    right = max(14, SIDE * (len(units) - 1))
    box = Box(SIDE, TITLE + 6, wide - right, high - FOOT - rows * LEGEND_LINE - 6)
    yield from _times(times, box)
    if not lines:
        middle = f'x="{wide / 2:.1f}" y="{(box.top + box.bottom) / 2:.1f}" text-anchor="middle"'
        yield f'<text {middle} font-size="15" fill="#999">No data</text>'
        return
    most = {}
    for number, unit in enumerate(units):
        axis = ticks(max(value for it in lines if it.unit == unit for _, value in it.points), unit)
        most[unit] = axis[-1]
        yield from _axis(axis, unit, number, box)
    for number, line in enumerate(lines):
        yield from _line(line, PALETTE[number % len(PALETTE)], most[line.unit], box, times)
    top = high - rows * LEGEND_LINE - 2
    yield f'<g transform="translate(10 {top:.1f})">{"".join(legend)}</g>'


def _times(times: Times, box: Box) -> Iterator[str]:
    for _, began, ended in times.spans:
        left, right = (box.x(times.part(at)) for at in (began, ended))
        place = f'x="{left:.1f}" y="{box.top}" height="{box.bottom - box.top:.1f}"'
        yield f'<rect {place} width="{max(1.0, right - left):.1f}" fill="#f2495c" opacity="0.12"/>'
        for x in (left, right):
            line = f'd="M{x:.1f} {box.top}V{box.bottom:.1f}" stroke-dasharray="4 3"'
            yield f'<path {line} stroke="#f2495c"/>'
    minutes = (times.last_s - times.first_s) / 60
    apart = next((it for it in (1, 2, 5, 10, 20, 30) if minutes / it <= TIMES_MAX), 60)
    for minute in range(0, int(minutes) + 1, apart):
        x = box.x(minute / minutes)
        yield f'<path d="M{x:.1f} {box.bottom:.1f}v4" stroke="#999"/>'
        words = f'x="{x:.1f}" y="{box.bottom + 17:.1f}" text-anchor="middle" font-size="11"'
        yield f"<text {words}>{minute} min</text>"


def _axis(axis: Sequence[float], unit: str, number: int, box: Box) -> Iterator[str]:
    for value in axis:
        y = box.y(value / axis[-1])
        if number == 0:
            yield f'<path d="M{box.left} {y:.1f}H{box.right:.1f}" stroke="#e5e5e5"/>'
            place = f'x="{box.left - 6}" text-anchor="end"'
        else:
            place = f'x="{box.right + 6 + SIDE * (number - 1):.1f}"'
        yield f'<text {place} y="{y + 4:.1f}" font-size="11">{written(value, unit)}</text>'


def _line(line: Line, colour: str, most: float, box: Box, times: Times) -> Iterator[str]:
    for run in unbroken(line.points, times.step_s):
        places = [(box.x(times.part(at)), box.y(max(0.0, value) / most)) for at, value in run]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        (first, _), (last, y) = places[0], places[-1]
        if len(places) == 1:
            yield f'<circle cx="{last:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>'
        area = f"M{path}L{last:.1f} {box.bottom:.1f}L{first:.1f} {box.bottom:.1f}Z"
        yield f'<path d="{area}" fill="{colour}" opacity="0.08"/>'
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>'


def unbroken(points: Points, step_s: float) -> list[list[tuple[float, float]]]:
    """Parts of a line without a gap: one ends where a moment has no value."""
    found: list[list[tuple[float, float]]] = []
    for at_s, value in points:
        if not found or at_s - found[-1][-1][0] > step_s * 1.5:
            found.append([])
        found[-1].append((at_s, value))
    return found


def _legend(lines: Sequence[Line], wide: float, high: float) -> tuple[int, list[str]]:
    """Rows of the legend, and its parts; what no room is left for is counted."""
    rows_max = max(1, math.floor(high * LEGEND_SHARE / LEGEND_LINE))
    x, row, parts = 0.0, 0, []
    for number, line in enumerate(lines):
        needs = 22 + len(line.name) * CHAR
        if x and x + needs > wide:
            x, row = 0.0, row + 1
        if row == rows_max:
            parts.append(_text(wide, row - 1, f"and {len(lines) - number} more", "end"))
            return row, parts
        colour, y = PALETTE[number % len(PALETTE)], row * LEGEND_LINE + 5
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="12" height="3" fill="{colour}"/>')
        parts.append(_text(x + 16, row, line.name))
        x += needs
    return row + 1, parts


def _text(x: float, row: int, words: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{row * LEGEND_LINE + 11}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11">{escape(words)}</text>'
