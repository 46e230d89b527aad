"""The diagrams of docs/architecture.md: states, drawn from the tables that the product runs on, and
sequences, held to the calls in the code (docs/sequences.py).

`python -m docs.diagrams` draws them anew; tests/unit/test_diagrams.py fails where they differ.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from docs.sequences import SEQUENCES, sequence
from meterline.delivery import DELIVERY_MOVES, DeliveryState
from meterline.report import REPORT_MOVES, RUN_MOVES, ReportState, RunState

State = TypeVar("State", bound=StrEnum)
Move = TypeVar("Move", bound=StrEnum)

PAGE: Final = Path(__file__).with_name("architecture.md")


def diagram(moves: Mapping[tuple[State, Move], State], starts: Iterable[State]) -> list[str]:
    """A mermaid state diagram: an arrow per pair of states, labelled with the moves between them.

    A state that no other one can be reached from has an arrow to the end.
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for (source, move), target in moves.items():
        arrows.setdefault((source.value, target.value), []).append(move.value)
    left = {source for source, target in arrows if source != target}
    reached = {target for _, target in arrows}
    return [
        "```mermaid",
        "stateDiagram-v2",
        *(f"    [*] --> {start.value}" for start in starts),
        *(f"    {one} --> {other}: {', '.join(by)}" for (one, other), by in arrows.items()),
        *(f"    {end} --> [*]" for end in sorted(reached - left)),
        "```",
    ]


def diagrams() -> dict[str, list[str]]:
    """The lines of each diagram, by its name on the page."""
    return {
        "run": diagram(RUN_MOVES, (RunState.SCHEDULED, RunState.WAITING, RunState.SKIPPED)),
        "delivery": diagram(DELIVERY_MOVES, (DeliveryState.PENDING,)),
        "report": diagram(REPORT_MOVES, (ReportState.ACTIVE,)),
        **{name: sequence(arrows) for name, arrows in SEQUENCES.items()},
    }


def replaced(page: str, name: str, lines: Iterable[str]) -> str:
    """The page with these lines between `<!-- NAME: made by ... -->` and the next `<!-- end -->`.

    Raises `ValueError` where the page has no such markers.
    """
    head, begin, rest = page.partition(f"<!-- {name}: made by ")
    made_by, closed, rest = rest.partition(" -->\n")
    _, end, tail = rest.partition("<!-- end -->\n")
    if not (begin and closed and end):
        raise ValueError(f"the page has no markers for {name}")
    return "".join((head, begin, made_by, closed, *(f"{line}\n" for line in lines), end, tail))


def drawn(page: str) -> str:
    """The page with all its diagrams as the tables have it."""
    for name, lines in diagrams().items():
        page = replaced(page, name, lines)
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
