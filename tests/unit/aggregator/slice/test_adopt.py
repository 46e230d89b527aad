"""A slice that takes newer meters on is as if it had begun with them, whenever it is flushed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice.adoption import next_catalogue
from aggregator.slice.open_slice import OpenSlice
from meterline.event import Event, decode_event, position
from meterline.limits import ADOPT_FOLDS_MAX, FILL_REVISIONS_MAX, OPEN_TYPES_MAX
from meterline.meter import Aggregation, Catalogue, Measures, measures_of
from meterline.usage import Flush, TallyRow
from tests.unit.aggregator.slice.test_fold import HORIZON_MS, ID, events, meter, records

ALL = tuple(meter(number, aggregation) for number, aggregation in enumerate(Aggregation))
OTHERS = tuple(replace(it, event_type="another") for it in ALL[4:])
# Two leave, two stay, the others are new: of the type that there is, or of one that may be there.
NEWER = {"t": Catalogue(2, ALL[2:]), "another": Catalogue(2, (*ALL[2:4], *OTHERS))}
OLD = Catalogue(1, ALL[:4])
GONE = frozenset({0, 1})


def newest(taken: Flush) -> list[TallyRow]:
    """The tallies of revisions that did not leave, as the store merges them."""
    found: dict[tuple[int | str, ...], TallyRow] = {}
    for row in taken.tallies:
        before = found.get(row[:7])
        assert before is None or before.version != row.version or before == row, "decided twice"
        if before is None or before.version <= row.version:
            found[row[:7]] = row
    return sorted(row for row in found.values() if row.revision not in GONE)


def kept(taken: Flush) -> tuple[object, ...]:
    members = [row for row in taken.members if row.revision not in GONE]
    rejected = [row for row in taken.rejected if row.revision not in GONE]
    return newest(taken), sorted(members), sorted(rejected), taken.events, taken.rejects


@given(
    st.lists(st.lists(events(("t", "t", "t", "another")), max_size=6), max_size=7),
    st.sets(st.integers(0, 6)),
    st.integers(0, 6),
    st.integers(0, 3),
    st.sampled_from(sorted(NEWER)),
    st.sampled_from([OPEN_TYPES_MAX, 1]),
)
def test_a_newer_catalogue_in_an_open_slice(
    packs: list[list[Event]],
    flush_after: set[int],
    begun: int,
    took: int,
    of_type: str,
    types_max: int,
) -> None:
    """It is begun behind one record, and what came before is added some records later, if the slice
    says that it lacks any.
    """
    new = NEWER[of_type]
    ahead: Measures = measures_of(Catalogue(2, new.meters[2:]))
    at_once, whole = OpenSlice(ID, 0, measures_of(new)), Flush()
    for record, items in records(packs):
        at_once.absorb(record, record.append_ms, items, {}, HORIZON_MS)
    whole.extend(at_once.take())

    changed, parts = OpenSlice(ID, 0, measures_of(OLD), types_max), Flush()
    adopted = False
    for record, items in records(packs):
        if record.offset == begun:
            changed.look_ahead(ahead)
            told(changed, begun, packs, of_type, types_max)
        changed.absorb(record, record.append_ms, items, {}, HORIZON_MS)
        if record.offset in flush_after:
            parts.extend(changed.take())
        if record.offset == begun + took:
            parts.extend(changed.take())
            adopt(changed, parts, new)
            adopted = True
    parts.extend(changed.take())
    if not adopted:
        if len(packs) <= begun:
            changed.look_ahead(ahead)
        adopt(changed, parts, new)
        parts.extend(changed.take())

    assert kept(parts) == kept(whole)
    assert changed.counted() == at_once.counted()
    assert changed.account() == at_once.account()


def told(
    changed: OpenSlice, begun: int, packs: list[list[Event]], of_type: str, types_max: int
) -> None:
    """It lacks what came before where any of that counts; where it knows few types, maybe else."""
    first = {event.key: event.type for pack in packs[begun - 1 :: -1] for event in reversed(pack)}
    types = set(first.values()) if begun else set()
    has_some = of_type in types or len(types) >= types_max
    assert changed.lacks_before == (begun if has_some else None)


def adopt(changed: OpenSlice, taken: Flush, new: Catalogue) -> None:
    """What the store has of before is added, in any order; here, the last first."""
    before = changed.lacks_before or 0
    for row in reversed([row for row in taken.events if row.offset < before]):
        changed.add_earlier(decode_event(row.text), position(row.offset, row.place))
    changed.lacks_before = None
    changed.adopt(measures_of(new), GONE)


def test_no_more_is_taken_on_at_once_than_fits() -> None:
    known = tuple(meter(number, Aggregation.COUNT) for number in range(1, 9))
    before = Catalogue(9, known)
    fresh = tuple(meter(number, Aggregation.COUNT) for number in range(10, 310))
    newest = Catalogue(400, (*known[2:], *fresh))
    assert next_catalogue(before, newest, 0) is newest, "nothing is to be read"
    some = next_catalogue(before, newest, 1)
    assert some == Catalogue(9 + FILL_REVISIONS_MAX, (*known[2:], *fresh[:FILL_REVISIONS_MAX]))
    few = next_catalogue(before, newest, ADOPT_FOLDS_MAX // 3)
    assert few == Catalogue(12, (*known[2:], *fresh[:3]))
    assert next_catalogue(before, newest, ADOPT_FOLDS_MAX * 2).version == 10, "at least one"
    steps, reached = 0, before
    while reached != newest:
        reached = next_catalogue(reached, newest, ADOPT_FOLDS_MAX // 50)
        steps += 1
    assert steps == 6
