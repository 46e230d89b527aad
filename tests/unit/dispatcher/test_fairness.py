"""Places in flight: within the caps, in turns."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.fairness import allot
from meterline.report_ports import Due


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), unique_by=lambda it: it[0]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 6)),
    st.integers(0, 20),
    st.integers(0, 6),
)
def test_the_caps_hold_and_no_place_is_wasted(
    reports: list[tuple[int, int]], flying: dict[int, int], total_max: int, endpoint_max: int
) -> None:
    due = [Due(str(report), str(endpoint)) for report, endpoint in reports]
    in_flight = {str(endpoint): count for endpoint, count in flying.items()}
    given_ = allot(due, in_flight, total_max, endpoint_max)
    total = sum(in_flight.values()) + sum(it.count for it in given_)
    assert total <= max(total_max, sum(in_flight.values()))
    for endpoint in {it.endpoint for it in due}:
        own = in_flight.get(endpoint, 0)
        own += sum(it.count for it in given_ if it.endpoint == endpoint)
        assert own <= max(endpoint_max, in_flight.get(endpoint, 0))
        assert own >= endpoint_max or total >= total_max
    assert len({it.report_id for it in given_}) == len(given_)


def test_a_hanging_endpoint_leaves_places_to_others_and_turns_are_taken() -> None:
    due = [Due("slow", "s"), Due("a", "x"), Due("b", "y")]
    counts = {it.report_id: it.count for it in allot(due, {"s": 8}, 16, 8)}
    assert counts == {"a": 4, "b": 4}
