"""What meters make of an event is what the fold makes of it."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice.fold import SliceFold
from meterline.event import Event, decode_event
from meterline.meter import (
    BEFORE_START,
    Aggregation,
    Catalogue,
    Judges,
    Meter,
    conflicting_members,
    decode_groups,
    measures_of,
    outcomes,
    switched,
)
from meterline.usage import SliceId
from meterline.window import MINUTE_MS

AT = "2026-01-31T10:00:30Z"


def meter(revision: int, aggregation: Aggregation, *, from_ms: int | None = None) -> Meter:
    value = None if aggregation is Aggregation.COUNT else "$.v"
    return Meter(
        f"id{revision}", revision, "n", f"m{revision}", "", "", aggregation, "t", value,
        (("g", "$.g"), ("h", "$.h")), 0, 0, events_from_ms=from_ms,
    )  # fmt: skip


METERS = tuple(meter(i, aggregation) for i, aggregation in enumerate(Aggregation))


def event(**more: Any) -> Event:
    document = {
        "specversion": "1.0", "id": "a", "source": "s", "type": "t", "subject": "x", "time": AT,
        "namespace": "n", "recordedtime": "2026-01-31T11:00:00Z", "data": {"v": 1}, **more,
    }  # fmt: skip
    return decode_event(msgspec.json.Encoder(decimal_format="number").encode(document))


values: st.SearchStrategy[Any] = st.one_of(
    st.integers(-(10**25), 10**25),
    st.sampled_from([None, True, "1.5", "x", "", [], {"a": 1}, Decimal("1.25"), "NaN", "1e99"]),
)


@given(st.fixed_dictionaries({}, optional={"v": values, "g": values, "h": values}))
def test_an_outcome_is_what_the_fold_does(data: dict[str, Any]) -> None:
    made = event(data=data)
    measures = measures_of(Catalogue(1, METERS))
    fold = SliceFold(SliceId(1, 0, 0), measures)
    fold.add(made, 0)
    tallies, _, rejected = fold.take()
    told = {one.meter.revision: one for one in outcomes(made, measures)}
    assert set(told) == {row.revision for row in tallies} == set(range(len(METERS)))
    for row in tallies:
        one = told[row.revision]
        assert one.counted == (row.counted == 1)
        assert one.window == row.window
        assert [value for _, value in one.groups] == decode_groups(row.groups)
        assert [name for name, _ in one.groups] == ["g", "h"]
    why = {row.revision: (row.reason, row.value) for row in rejected}
    assert why == {r: (one.reason, one.value) for r, one in told.items() if not one.counted}
    assert all(one.field == ("" if one.counted else "$.v") for one in told.values())


def test_only_meters_of_the_namespace_and_type_have_an_outcome() -> None:
    measures = measures_of(Catalogue(1, METERS))
    assert outcomes(event(type="other"), measures) == []
    assert outcomes(event(namespace="m"), measures) == []


def test_an_event_is_judged_by_the_revision_that_answers_its_time() -> None:
    made = event()
    minute_ms = made.time_ms // MINUTE_MS * MINUTE_MS
    old, other = meter(1, Aggregation.COUNT), meter(3, Aggregation.COUNT)
    new = replace(old, revision=2, dimensions=())
    for from_ms, answers in ((minute_ms, 2), (minute_ms + MINUTE_MS, 1), (None, 2)):
        judges = Judges([switched(old, new, from_ms), other])
        told = [(one.meter.revision, one.in_force) for one in judges.outcomes(made)]
        assert told == [(answers, 2), (3, 3)]


def test_what_lies_before_the_start_of_a_meter_does_not_count() -> None:
    made = event()
    late = meter(1, Aggregation.COUNT, from_ms=made.time_ms + 1)
    just = meter(2, Aggregation.COUNT, from_ms=made.time_ms)
    one, other = outcomes(made, measures_of(Catalogue(1, (late, just))))
    assert (one.counted, one.field, one.reason) == (False, "time", BEFORE_START)
    assert other.counted


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ()),
        ({"recordedtime": "2026-02-01T00:00:00Z"}, ()),
        ({"time": "2026-01-31T11:00:30+01:00"}, ()),
        ({"type": "u"}, ("type",)),
        ({"subject": "y"}, ("subject",)),
        ({"time": "2026-01-31T10:00:31Z"}, ("time",)),
        ({"time": None}, ("time",)),
        ({"data": {"v": 2}}, ("data",)),
        ({"data": {"v": Decimal("1.0")}}, ()),
        ({"data": None}, ("data",)),
        (
            {"type": "u", "subject": "y", "time": None, "data": 1},
            ("type", "subject", "time", "data"),
        ),
    ],
)
def test_differences_are_named(changed: dict[str, Any], expected: tuple[str, ...]) -> None:
    first, other = event(), event(**changed)
    assert conflicting_members(other, first) == expected
    assert conflicting_members(first, other) == expected
    assert (first.check == other.check) == (not expected), "a conflict differs in something"
