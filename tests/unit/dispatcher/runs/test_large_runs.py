"""Runs of more usage than memory should hold, and subjects too large for a delivery."""

from dataclasses import replace

import pytest

from meterline.delivery import DeliveryState
from meterline.number import UNIT
from meterline.report import Report, ReportFilter, RunState
from meterline.usage import Comparison, Condition
from tests.unit.dispatcher.conftest import START_MS, Rig
from tests.unit.dispatcher.runs.test_planner import (
    END_MS,
    LATER_MS,
    URL,
    deliveries,
    first_run,
    make,
    revised,
)


@pytest.fixture
async def report(rig: Rig) -> Report:
    rig.usage.cells = {
        ("acme", "a", START_MS): 3 * UNIT,
        ("acme", "b", START_MS + 1): 4 * UNIT,
        ("zeta", "a", END_MS - 1): 5 * UNIT,
    }
    return await rig.report(URL)


async def test_a_subject_that_is_too_large_fails_alone_and_resume_and_replay_leave_it(
    rig: Rig, report: Report
) -> None:
    letters = "x" * 300
    many = {("big", f"{n:05}{letters}", START_MS): UNIT for n in range(20_000)}
    rig.usage.cells |= many
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 1
    run = await first_run(rig, report)
    assert (run.state, run.failed) == (RunState.DELIVERING, 1)
    assert "1 of 3 deliveries could not be made" in run.reason
    assert "subject 'big'" in run.reason
    assert "20,000 entries" in run.reason
    assert "model at least 10,000" in run.reason
    assert run.manifest is not None
    assert run.manifest.entries == 20_003
    assert run.manifest.total == 20_012 * UNIT
    acme, big, zeta = await deliveries(rig, run)
    assert (acme.state, zeta.state) == (DeliveryState.PENDING, DeliveryState.PENDING)
    assert (big.state, big.sequence, zeta.sequence) == (DeliveryState.FAILED, 2, 3)
    assert big.failure is not None
    # What was said of it is remembered: late usage of others does not say it again.
    rig.usage.cells["acme", "a", START_MS] += UNIT
    revision = await revised(rig, report, LATER_MS)
    (only,) = await deliveries(rig, revision)
    assert (only.subject, only.sequence) == ("acme", 4)
    # With less usage it is made, under an id of its own, and replaces nothing.
    rig.usage.cells = {key: it for key, it in rig.usage.cells.items() if key not in many}
    rig.usage.cells["big", "small", START_MS] = UNIT
    again = await revised(rig, report, LATER_MS + 1)
    (made,) = await deliveries(rig, again)
    assert (made.subject, made.failure, made.supersedes) == ("big", None, None)
    assert made.id != big.id


async def test_more_rows_than_one_portion_are_one_run(
    rig: Rig,
) -> None:
    """Each report asks for itself, and all of it is told once, by subject."""
    rig.plan_terms = replace(rig.plan_terms, rows_max=7)
    rig.usage.cells = {(f"s{n % 40:02}", f"m{n}", START_MS): (n + 1) * UNIT for n in range(200)}
    filter_ = ReportFilter(
        usage=(Condition(Comparison.NE, (UNIT,)),),
        subject=(Condition(Comparison.NIN, ("s01", "s39")),),
    )
    whole = await rig.report(URL)
    part = await rig.report(URL, "part", filter_=filter_)
    await rig.complete(LATER_MS)
    assert await make(rig, END_MS) == 2
    for report, subjects in ((whole, 40), (part, 38)):
        run = await first_run(rig, report)
        assert [it.subject for it in await deliveries(rig, run)] == sorted(
            f"s{n:02}" for n in range(40) if subjects == 40 or n not in (1, 39)
        )
        assert run.manifest is not None
        assert run.manifest.entries + run.manifest.filtered_out == 200
        assert run.manifest.total + run.manifest.total_filtered_out == 20_100 * UNIT
        assert run.manifest.filtered_out == (0 if report is whole else 11)
    rig.usage.cells["s20", "m20", START_MS] += UNIT
    del rig.usage.cells["s10", "m10", START_MS]
    revision = await revised(rig, part, LATER_MS)
    assert [it.subject for it in await deliveries(rig, revision)] == ["s10", "s20"]
