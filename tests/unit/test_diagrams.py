"""The diagrams of docs/architecture.md are those of the tables that the product runs on."""

from dataclasses import replace

import pytest

from docs.diagrams import PAGE, diagrams, drawn, replaced
from docs.sequences import DELIVERED, EVENT, SLICE, Arrow, held, sequence
from meterline.delivery import DeliveryState
from meterline.report import ReportState, RunState


def test_the_page_shows_the_tables_as_they_are() -> None:
    page = PAGE.read_text("utf-8")
    assert drawn(page) == page, "run `python -m docs.diagrams`"


@pytest.mark.parametrize(
    ("name", "states"), [("run", RunState), ("delivery", DeliveryState), ("report", ReportState)]
)
def test_every_state_is_shown_and_can_be_reached(
    name: str, states: type[RunState | DeliveryState | ReportState]
) -> None:
    arrows = [line.split(":")[0].split() for line in diagrams()[name] if "-->" in line]
    reached = {target for _, _, target in arrows} - {"[*]"}
    assert reached == {state.value for state in states}


@pytest.mark.parametrize("arrows", [EVENT, SLICE, DELIVERED])
def test_a_sequence_has_an_arrow_for_each_call(arrows: tuple[Arrow, ...]) -> None:
    assert len([line for line in sequence(arrows) if "->>" in line]) == len(arrows)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"call": "self.usage.gone"}, "does not call self.usage.gone"),
        ({"code": "aggregator/step.py::Aggregator.gone"}, "is not there"),
    ],
)
def test_an_arrow_without_its_call_is_told(change: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        held([replace(SLICE[2], **change)])


def test_arrows_in_another_order_than_the_code_are_told() -> None:
    sealing = [one for one in SLICE if "/sealing.py::" in one.code]
    held(sealing)
    with pytest.raises(ValueError, match="does not call"):
        held(reversed(sealing))


def test_what_differs_is_drawn_anew_and_the_rest_stays() -> None:
    page = "before\n<!-- run: made by hand -->\nold\n<!-- end -->\nafter\n"
    expected = "before\n<!-- run: made by hand -->\nnew\nlines\n<!-- end -->\nafter\n"
    assert replaced(page, "run", ["new", "lines"]) == expected


def test_a_page_without_its_markers_is_told() -> None:
    with pytest.raises(ValueError, match="no markers for run"):
        replaced("a page\n", "run", [])
