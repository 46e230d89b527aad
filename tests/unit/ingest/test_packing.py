from itertools import islice, pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ingest.packing import packs_of
from meterline.limits import EVENT_BYTES_MAX, PACK_BYTES_MAX, PACK_EVENTS_MAX

TEXTS = st.lists(st.text("ab", max_size=20).map(msgspec.json.encode), max_size=60)


@given(TEXTS, st.integers(1, 7), st.integers(24, 60))
def test_packs_hold_all_in_order_within_bounds_and_no_two_could_be_one(
    texts: list[bytes], events_max: int, bytes_max: int
) -> None:
    packs = [pack.value for pack in packs_of(texts, events_max, bytes_max)]
    held = [msgspec.json.decode(pack, type=list[msgspec.Raw]) for pack in packs]
    assert [bytes(text) for pack in held for text in pack] == texts
    assert all(1 <= len(pack) <= events_max for pack in held)
    assert all(len(pack) <= bytes_max for pack in packs)
    for one, (raw, following) in zip(held, pairwise(packs), strict=False):
        fits = len(raw) + 1 + len(bytes(msgspec.json.decode(following, type=list[msgspec.Raw])[0]))
        assert len(one) == events_max or fits > bytes_max


def test_nothing_makes_no_pack() -> None:
    assert packs_of([]) == []


def test_the_largest_events_fit() -> None:
    packs = [pack.value for pack in packs_of([b"x" * EVENT_BYTES_MAX] * 7)]
    assert [len(pack) for pack in packs[:-1]] == [3 * EVENT_BYTES_MAX + 4] * 2
    assert all(len(pack) <= PACK_BYTES_MAX for pack in packs)
    assert len(packs_of([b"1"] * (PACK_EVENTS_MAX + 1))) == 2


@given(st.lists(st.binary(min_size=1, max_size=30)), st.integers(1, 6), st.integers(34, 90))
def test_events_of_packs_are_counted_as_they_were_packed(
    texts: list[bytes], events_max: int, bytes_max: int
) -> None:
    packs = packs_of(texts, events_max, bytes_max)
    counts = [pack.events for pack in packs]
    assert sum(counts) == len(texts)
    places = iter(texts)
    again = [b"[" + b",".join(islice(places, count)) + b"]" for count in counts]
    assert again == [pack.value for pack in packs]
