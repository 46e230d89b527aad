"""Places in flight: within the caps, in turns over endpoints, first tries before retries."""

from collections.abc import Collection, Iterator

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.sending.fairness import Caps, Load, grant_sends
from meterline import limits
from meterline.delivery import Address, Due, Health, SendGrant

NOW = 1_770_000_000_000


def due(report: str, endpoint: str, *, first: bool = True, waits_ms: int = 0) -> Due:
    return Due(report, endpoint, "default", NOW - waits_ms, first)


def at(endpoint: str) -> Address:
    return ("default", endpoint)


def flying(**counts: int) -> Load:
    """So many under way, by endpoint; all are proven."""
    claimed = {at(endpoint): count for endpoint, count in counts.items()}
    return Load(claimed, sum(counts.values()), proven=EVERYWHERE)


class Everywhere(Collection[Address]):
    """Every endpoint."""

    def __contains__(self, _address: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Address]:
        raise AssertionError("without end")

    def __len__(self) -> int:
        raise AssertionError("without end")


EVERYWHERE = Everywhere()
NOTHING = Load(proven=EVERYWHERE)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans(), st.integers(0, 100_000)),
        unique_by=lambda it: it[0],
    ),
    st.dictionaries(st.integers(0, 3), st.integers(0, 6)),
    st.sets(st.integers(0, 3)),
    st.integers(0, 20),
    st.integers(0, 6),
)
def test_the_caps_hold_and_no_place_is_wasted(
    reports: list[tuple[int, int, bool, int]],
    held: dict[int, int],
    proven: set[int],
    total_max: int,
    endpoint_max: int,
) -> None:
    waiting = [
        due(str(report), str(endpoint), first=first, waits_ms=waits_ms)
        for report, endpoint, first, waits_ms in reports
    ]
    claimed = {at(str(endpoint)): count for endpoint, count in held.items()}
    load = Load(claimed, sum(held.values()), proven={at(str(endpoint)) for endpoint in proven})
    caps = Caps(total_max, endpoint_max)
    given_ = grant_sends(waiting, load, caps, NOW)
    where = {it.report_id: it.address for it in waiting}
    total = load.under_way + sum(it.count for it in given_)
    assert total <= max(total_max, load.under_way)
    for endpoint in {it.address for it in waiting}:
        most = endpoint_max if endpoint in load.proven else min(endpoint_max, caps.unproven)
        before = claimed.get(endpoint, 0)
        own = before + sum(it.count for it in given_ if where[it.report_id] == endpoint)
        assert own <= max(most, before)
        assert own >= most or total >= total_max - (caps.reserve if own else 0)
    assert len({it.report_id for it in given_}) == len(given_)
    assert all(it.count for it in given_)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 32))
def test_the_endpoint_that_holds_the_fewest_is_next(held: list[int], free: int) -> None:
    load = flying(**{f"e{place}": count for place, count in enumerate(held)})
    waiting = [due(f"r{place}", f"e{place}") for place in range(len(held))]
    caps = Caps(sum(held) + free, 8)
    given_ = {it.report_id: it.count for it in grant_sends(waiting, load, caps, NOW)}
    after = [count + given_.get(f"r{place}", 0) for place, count in enumerate(held)]
    grown = [after[place] for place in range(len(held)) if f"r{place}" in given_]
    # nobody was given a place while another one held two fewer and had room
    assert not grown or max(grown) <= min(after) + 1 or min(after) == 8


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 400)), st.integers(0, 300))
def test_what_is_claimed_ahead_has_a_bound(taken: dict[int, int], in_hand: int) -> None:
    ahead = {at(str(endpoint)): count for endpoint, count in taken.items() if count}
    load = Load({at("0"): in_hand}, 0, ahead=ahead, proven=EVERYWHERE)
    waiting = [due(str(endpoint), str(endpoint)) for endpoint in range(4)]
    found = {it.report_id: it.count for it in grant_sends(waiting, load, Caps(16, 4), NOW)}
    before = {str(endpoint): in_hand * (endpoint == 0) for endpoint in range(4)}
    after = {name: held + found.get(name, 0) for name, held in before.items()}
    assert sum(found.values()) <= 16 + max(0, limits.DELIVERIES_AHEAD_MAX - in_hand)
    for name, count in after.items():
        assert count <= max(4 + ahead.get(at(name), 0), before[name])
        assert count >= 1, "what is claimed for one holds up no other"


@given(st.integers(0, 8), st.integers(0, 600), st.integers(0, 5_000))
def test_what_is_claimed_without_a_place_never_grows_beyond_its_bound(
    under_way: int, waits: int, taken: int
) -> None:
    load = Load({at("x"): under_way + waits}, under_way, ahead={at("x"): taken}, proven=EVERYWHERE)
    given_ = sum(it.count for it in grant_sends([due("a", "x")], load, Caps(64, 8), NOW))
    places = max(0, 8 - under_way - waits)  # of these some may be waiting already
    assert given_ <= places + max(0, limits.DELIVERIES_AHEAD_MAX - waits)


def test_of_many_that_hang_all_leave_places_to_others() -> None:
    """Each that took nothing of late gets two, and the last quarter goes to those with none."""
    waiting = [due(f"r{n:02}", f"e{n:02}") for n in range(15)]
    found = {it.report_id: it.count for it in grant_sends(waiting, Load(), Caps(32, 8), NOW)}
    assert sum(found.values()) == 24
    assert set(found.values()) == {1, 2}
    hanging = {at(f"h{n}"): 2 for n in range(12)}
    load = Load(hanging, 24)
    assert grant_sends(
        [*(due(f"h{n}", f"h{n}") for n in range(12)), due("a", "x")], load, Caps(32, 8), NOW
    ) == [SendGrant("a", 1)]


def test_turns_are_over_endpoints_not_over_their_reports() -> None:
    waiting = [due(f"a{n}", "x") for n in range(6)] + [due("b", "y")]
    counts = {it.report_id: it.count for it in grant_sends(waiting, NOTHING, Caps(8, 8), NOW)}
    assert counts == {"b": 3, "a0": 1, "a1": 1, "a2": 1}  # two are kept for others


def test_a_hanging_endpoint_leaves_places_to_others() -> None:
    waiting = [due("slow", "s"), due("a", "x"), due("b", "y")]
    found = grant_sends(waiting, flying(s=8), Caps(16, 8), NOW)
    assert found == [SendGrant("a", 2), SendGrant("b", 2)]  # and four are kept for others


def test_first_tries_come_before_retries_that_have_not_waited_long() -> None:
    waiting = [due("again", "x", first=False, waits_ms=9), due("new", "y")]
    assert grant_sends(waiting, NOTHING, Caps(1, 8), NOW) == [SendGrant("new", 1)]
    late = due("again", "x", first=False, waits_ms=limits.RETRY_WAIT_MS)
    assert grant_sends([late, due("new", "y")], NOTHING, Caps(1, 8), NOW) == [SendGrant("again", 1)]
    # of one endpoint, too
    same = [due("again", "x", first=False, waits_ms=9), due("new", "x")]
    assert grant_sends(same, NOTHING, Caps(1, 8), NOW) == [SendGrant("new", 1)]


def test_an_endpoint_that_is_out_gets_one_probe_and_one_that_opens_its_places() -> None:
    out = Due("r", "x", "default", NOW, health=Health(outages=3, probe_at_ms=NOW))
    assert grant_sends([out], NOTHING, Caps(), NOW) == [SendGrant("r", 1, probe=True)]
    assert grant_sends([out], NOTHING, Caps(), NOW - 1) == []
    assert grant_sends([out], flying(x=1), Caps(), NOW) == []
    opening = Due("r", "x", "default", NOW, health=Health(places=3))
    assert grant_sends([opening], flying(x=1), Caps(), NOW) == [SendGrant("r", 2)]


def test_the_same_url_in_two_namespaces_is_two_endpoints() -> None:
    waiting = [due("a", "x"), Due("b", "x", "other", NOW)]
    found = grant_sends(waiting, flying(x=8), Caps(), NOW)
    assert found == [SendGrant("b", 8)]


def test_a_pace_bounds_what_is_claimed() -> None:
    waiting = [due("a", "x"), due("b", "y")]
    found = grant_sends(waiting, NOTHING, Caps(), NOW, {("default", "x"): 0, ("default", "y"): 2})
    assert found == [SendGrant("b", 2)]
