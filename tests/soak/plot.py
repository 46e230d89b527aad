"""Series over time as an SVG: one chart under another, all over the same minutes (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Final

from tests.soak.judging import Points

WIDTH: Final = 960
LEFT: Final = 70  # for the figures of the axis
RIGHT: Final = 190  # for names beside the ends of lines
CHART_HEIGHT: Final = 210
PLOT_TOP: Final = 34
PLOT_HEIGHT: Final = 140
NAME_HEIGHT: Final = 14
POINTS_MAX: Final = 600  # of a line: the greatest of each of so many parts
STEPS: Final = 4  # of the axis
# Okabe and Ito's colours: told apart by everybody.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines by name, on one axis that begins at 0."""

    title: str
    lines: Mapping[str, Points]
    scale: float = 1.0  # values are divided by it


def svg(charts: Sequence[Chart], title: str, warm_s: float) -> str:
    """The picture; it is grey before it is warm."""
    times = [at_s for chart in charts for points in chart.lines.values() for at_s, _ in points]
    until_s = max(times, default=1.0) or 1.0
    height = 40 + len(charts) * CHART_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        '<g font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for number, chart in enumerate(charts):
        parts.append(f'<g transform="translate(0 {40 + number * CHART_HEIGHT})">')
        parts += _drawn(chart, until_s, min(warm_s, until_s))
        parts.append("</g>")
    return "\n".join([*parts, "</g></svg>", ""])


def _drawn(chart: Chart, until_s: float, warm_s: float) -> Iterator[str]:
    wide, bottom = WIDTH - LEFT - RIGHT, PLOT_TOP + PLOT_HEIGHT
    lines = {name: _thinned(points, until_s) for name, points in chart.lines.items() if points}
    greatest = max((value for of in lines.values() for _, value in of), default=0) / chart.scale
    step = nice_step(greatest)
    most = step * max(1, ceil(greatest / step))
    yield f'<text x="{LEFT}" y="20" font-size="13">{escape(chart.title)}</text>'
    warm = warm_s / until_s * wide
    place = f'x="{LEFT}" y="{PLOT_TOP}" width="{warm:.1f}" height="{PLOT_HEIGHT}"'
    yield f'<rect {place} fill="#eee"/>'
    for at in range(round(most / step) + 1):
        y = bottom - at * step / most * PLOT_HEIGHT
        yield f'<path d="M{LEFT} {y:.1f}H{LEFT + wide}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{at * step:,.6g}</text>'
    for at in range(5):
        x, minutes = LEFT + at / 4 * wide, at / 4 * until_s / 60
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{minutes:.3g} min</text>'
    ends = {}
    for (name, points), colour in zip(lines.items(), _colours(), strict=False):
        places = [
            (LEFT + at_s / until_s * wide, bottom - value / chart.scale / most * PLOT_HEIGHT)
            for at_s, value in points
        ]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        ends[name] = places[-1][1], colour, points[-1][1] / chart.scale
    for name, y, colour, value in _apart(ends):
        words = f"{escape(name)}: {value:,.4g}"
        yield f'<text x="{LEFT + wide + 6}" y="{y + 4:.1f}" fill="{colour}">{words}</text>'


def nice_step(greatest: float) -> float:
    """Between two of about `STEPS` lines of an axis: 1, 2 or 5 times a power of 10."""
    if greatest <= 0:
        return 1.0
    rough = greatest / STEPS
    power: float = 10.0 ** floor(log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough * 0.999)


def _thinned(points: Points, until_s: float) -> list[tuple[float, float]]:
    """No more points than a picture shows: peaks stay."""
    found: dict[int, tuple[float, float]] = {}
    for at_s, value in points:
        part = min(int(at_s / until_s * POINTS_MAX), POINTS_MAX - 1)
        if part not in found or value > found[part][1]:
            found[part] = at_s, value
    return [found[part] for part in sorted(found)]


def _colours() -> Iterator[str]:
    while True:
        yield from COLOURS


def _apart(ends: Mapping[str, tuple[float, str, float]]) -> Iterator[tuple[str, float, str, float]]:
    """Names beside the ends of their lines, none over another."""
    lowest = float("-inf")
    for name, (y, colour, value) in sorted(ends.items(), key=lambda it: it[1][0]):
        lowest = max(y, lowest + NAME_HEIGHT)
        yield name, lowest, colour, value
