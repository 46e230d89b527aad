"""The plots and tables of docs/benchmarks.md, made from the figures below.

`python -m docs.benchmark_plots` makes them anew; tests/unit/test_docs.py fails where they differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

from docs.diagrams import replaced

PAGE: Final = Path(__file__).with_name("benchmarks.md")
STEPS: Final = 10  # the axis ends at a multiple of a tenth of its power of ten


@dataclass(frozen=True, slots=True)
class Plot:
    """Figures by label: the first column is drawn as bars, the second as a line if it is of the
    same unit. Else it stands in the table only.
    """

    name: str
    title: str
    unit: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, tuple[float, float]]]
    lined: bool = False


PLOTS: Final = (
    Plot(
        "queries",
        "100 million events: how long an answer takes",
        "ms: bars are raw events, the line is Meterline",
        ("raw events", "Meterline"),
        (
            ("one subject, 30 days by day", (24, 17)),
            ("1,000 subjects, one day", (576, 19)),
            ("30 days by hour", (8_523, 21)),
            ("30 days by two groups", (14_386, 14)),
        ),
        lined=True,
    ),
    Plot(
        "gateway",
        "One gateway, batches of 100 events, all durable",
        "events a second",
        ("events a second", "microseconds of processor time an event"),
        (("log on Kafka", (122_481, 8.2)), ("log on SQLite", (141_452, 6.9))),
    ),
    Plot(
        "counting",
        "One aggregator, three meters, a full log on Kafka",
        "events a second",
        ("events a second", "microseconds of processor time an event"),
        (
            ("4 partitions", (32_600, 20.3)),
            ("8 partitions", (28_700, 20.3)),
            ("16 partitions", (29_100, 22.0)),
        ),
    ),
    Plot(
        "recovery",
        "From the end of a fault until everything is counted",
        "seconds: bars are medians, the line is the longest",
        ("median, s", "longest, s"),
        (
            ("gateways killed", (0.8, 0.8)),
            ("aggregators killed", (7.8, 12.6)),
            ("dispatchers killed", (0.6, 2.0)),
            ("Kafka away", (8.8, 14.1)),
            ("ClickHouse away", (5.2, 9.3)),
            ("PostgreSQL away", (3.0, 8.9)),
        ),
        lined=True,
    ),
)


def chart(plot: Plot) -> Iterator[str]:
    """A picture, and a table of all."""
    drawn = [[figures[at] for _, figures in plot.rows] for at in range(1 + plot.lined)]
    labels = ", ".join(f'"{label}"' for label, _ in plot.rows)
    yield from ("```mermaid", "xychart-beta", f'    title "{plot.title}"', f"    x-axis [{labels}]")
    yield f'    y-axis "{plot.unit}" 0 --> {_end(max(map(max, drawn)))}'
    for kind, values in zip(("bar", "line"), drawn, strict=False):
        yield f"    {kind} [{', '.join(f'{value:g}' for value in values)}]"
    yield from ("```", "", f"| | {' | '.join(plot.columns)} |")
    yield "|---" * (1 + len(plot.columns)) + "|"
    for label, figures in plot.rows:
        yield f"| {label} | {' | '.join(f'{value:,}' for value in figures)} |"


def _end(greatest: float) -> int:
    """A round number that is not less."""
    step: int = max(1, 10 ** (len(str(int(greatest))) - 1) // STEPS)
    return ceil(greatest / step) * step


def made(page: str) -> str:
    """The page with all plots as the figures are."""
    for plot in PLOTS:
        page = replaced(page, plot.name, chart(plot))
    return page


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
