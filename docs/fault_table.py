"""The table of faults, metrics and alerts in docs/faults.md, made from `tests.faults.alarms`.

`python -m docs.fault_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from tests.faults.alarms import alarm_of
from tests.faults.cases import CASES
from tests.faults.unsurvivable import ENDS

PAGE: Final = Path(__file__).with_name("faults.md")
NAME: Final = "faults"


def rows() -> Iterator[str]:
    """The lines of the table, one for each fault: metric, alert, how long it must last."""
    yield "| fault | metric | alert | fires if it lasts |"
    yield "|---|---|---|---|"
    for name in (*CASES, *ENDS):
        it = alarm_of(name)
        lasts = "any time" if it.lasts_s is None else f"{it.lasts_s:g} s"
        page = f"[{it.alert}](alerts.md#{it.alert.lower()})"
        yield f"| {name} | `{it.metric}` | {page} | {lasts} |"


def made(page: str) -> str:
    """The page with the table as the faults are declared."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
