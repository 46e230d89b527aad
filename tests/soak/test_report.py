"""What is said of a run is what was found."""

import pytest

from tests.soak.judging import ENOUGH_S, Judged
from tests.soak.report import LINES_MAX, broke_off, minutes_table, processes_table, verdict
from tests.soak.sampling import COUNTED, HANDLES, LAG_S, OF_PROCESSES, WHOLE, Series

MINUTES = 90
ENOUGH = ENOUGH_S / 60
GOOD, BAD = (
    Judged("it is flat", holds=True, figures="1, 1"),
    Judged("lag", holds=False, figures="9 s"),
)


@pytest.mark.parametrize(
    ("found", "minutes", "holds", "word"),
    [
        ([GOOD, GOOD], ENOUGH, True, "HOLDS"),
        ([GOOD, BAD], ENOUGH, False, "not so: lag (9 s)"),
        ([GOOD], ENOUGH - 1, True, "too short to tell"),
        ([BAD], ENOUGH - 1, False, "too short to tell"),
    ],
)
def test_a_verdict_names_what_does_not_hold(
    found: list[Judged], minutes: float, holds: bool, word: str
) -> None:
    it = verdict("servers", found, minutes)
    assert it.holds is holds
    assert word in it.words


def test_a_run_that_broke_off_does_not_hold() -> None:
    it = broke_off("servers", "control ended with code 1")
    assert not it.holds
    assert "control ended with code 1" in it.words


def sampled(minutes: int) -> Series:
    """Two processes that hold 100 MB and as many handles as minutes have gone; 1,000 events/s."""
    series = Series()
    for at_s in range(0, minutes * 60, 5):
        for process in ("gateway", "counter"):
            for what in OF_PROCESSES:
                series.add(what, process, at_s, 100e6)
            series.of[HANDLES, process][-1] = at_s, at_s // 60
        series.add(LAG_S, WHOLE, at_s, 0.5)
        series.add(COUNTED, WHOLE, at_s, at_s * 1_000)
    return series


def test_each_process_has_its_line_by_minute() -> None:
    table = minutes_table("it", sampled(MINUTES))
    assert [str(column.header) for column in table.columns] == [
        "minute", "gateway MB", "counter MB", "handles", "lag s", "rate"
    ]  # fmt: skip
    assert table.row_count == LINES_MAX
    cells = [list(column.cells) for column in table.columns]
    assert cells[0][:3] == ["0", "3", "6"]
    assert set(cells[1]) == {"100"}
    assert cells[3][:3] == ["0", "6", "12"]
    assert set(cells[4]) == {"0.5"}
    assert set(cells[5][1:]) == {"1,000"}


def test_each_process_has_its_line_when_it_is_warm() -> None:
    table = processes_table("it", sampled(MINUTES), 600)
    assert [list(column.cells) for column in table.columns][:3] == [
        ["gateway", "counter"], ["100", "100"], ["100", "100"]
    ]  # fmt: skip


def test_a_run_without_samples_has_tables() -> None:
    assert minutes_table("it", Series()).row_count == 0
    assert processes_table("it", Series(), 600).row_count == 0
