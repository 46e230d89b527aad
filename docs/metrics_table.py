"""The table of metrics in docs/metrics.md, made from `meterline.ports.metrics`.

`python -m docs.metrics_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from meterline.ports import Kind, Label, metrics

PAGE: Final = Path(__file__).with_name("metrics.md")
NAME: Final = "metrics"


def _shown(label: Label) -> str:
    if label.values:
        return f"`{label.name}`: {', '.join(label.values)}"
    return f"`{label.name}`: at most {label.most:,}"


def rows() -> Iterator[str]:
    """The lines of the table: name and kind, labels, the roles that export it, meaning."""
    yield "| metric | kind | labels | roles besides `up` | meaning |"
    yield "|---|---|---|---|---|"
    for it in metrics.DECLARED:
        labels = "; ".join(map(_shown, it.labels))
        kind = it.kind.value
        if it.kind is Kind.HISTOGRAM:
            kind = f"histogram, {it.buckets[0]:g} to {it.buckets[-1]:g}"
        yield f"| `{it.name}` | {kind} | {labels} | {', '.join(it.roles)} | {it.meaning} |"


def made(page: str) -> str:
    """The page with the table as the metrics are declared."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
