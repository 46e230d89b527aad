"""Values that several meters take of one event."""

import json

from hypothesis import given
from hypothesis import strategies as st

from meterline.event import MISSING, Event, compile_path, decode_event
from meterline.meter import Aggregation, Catalogue, Meter, Tally, measures_of
from meterline.number import scaled

PATHS = ("$.a", "$.b")
VALUES: st.SearchStrategy[object] = st.one_of(
    st.decimals(-(10**6), 10**6, places=3, allow_nan=False).map(str),
    st.integers(-9, 9),
    st.floats(-9, 9, allow_nan=False),
    st.sampled_from([None, True, "no", 1e300, [], {}]),
)


def meter(number: int, aggregation: Aggregation, path: str) -> Meter:
    return Meter(f"m{number}", number, "n", f"m{number}", "", "", aggregation, "t", path, (), 0, 0)


METERS = tuple(
    meter(number, aggregation, path)
    for number, (aggregation, path) in enumerate(
        (one, path)
        for one in (Aggregation.SUM, Aggregation.MAX, Aggregation.LATEST)
        for path in (*PATHS, *PATHS)
    )
)


def event(data: dict[str, object]) -> Event:
    attributes = {"id": "1", "source": "s", "type": "t", "subject": "u", "namespace": "n"}
    written = json.dumps({**attributes, "recordedtime": "2026-01-31T00:00:00Z", "data": data})
    return decode_event(written.encode())


@given(st.lists(st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES}), max_size=5))
def test_each_meter_has_its_own_value_of_each_event(several: list[dict[str, object]]) -> None:
    measures = measures_of(Catalogue(1, METERS))["n", "t"]
    for data in several:
        of = event(data)
        for measure in measures:
            path = measure.meter.value_property
            assert path is not None
            value = compile_path(path)(of.data)
            expected = None if value is MISSING else scaled(value)
            tally = Tally()
            assert measure.add(tally, of) is (expected is not None)
            taken = {
                Aggregation.SUM: tally.total if tally.count else None,
                Aggregation.MAX: tally.maximum,
                Aggregation.LATEST: tally.latest.value if tally.latest else None,
            }
            assert taken[measure.aggregation] == expected
