"""Comparing what was booked with what was sent: laws over made-up books, and causes in words."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.number import UNIT
from meterline.runtime.commands.reconciliation import (
    Booking,
    DifferenceKind,
    Elsewhere,
    Reconciliation,
    Scope,
    SentDelivery,
    reconcile,
    standing,
    unknown,
)
from meterline.window import HOUR_MS

REPORT = "tokens-daily"
SCOPE = Scope(frozenset({"01R", REPORT}), 0, 9 * HOUR_MS)
KIND = DifferenceKind


def sent(
    name: str, value: int = 1, *, hour: int = 0, revision: int = 1, by: str | None = None
) -> SentDelivery:
    return SentDelivery(
        delivery_id=name,
        subject=f"s-{name}",
        from_ms=hour * HOUR_MS,
        to_ms=(hour + 1) * HOUR_MS,
        revision=revision,
        state="delivered",
        attempts=1,
        value=value * UNIT,
        digests=frozenset({f"b2-{name}", f"sha-{name}"}),
        superseded_by=by,
    )


def booking(one: SentDelivery) -> Booking:
    return Booking(
        one.delivery_id,
        one.value,
        REPORT,
        one.subject,
        one.from_ms,
        one.to_ms,
        one.revision,
        f"sha-{one.delivery_id}",
    )


@st.composite
def deliveries(draw: st.DrawFn) -> list[SentDelivery]:
    """Deliveries of some windows, with chains of revisions."""
    made = []
    for cell in range(draw(st.integers(1, 8))):
        length = draw(st.integers(1, 3))
        names = [f"d{cell}r{revision}" for revision in range(1, length + 1)]
        for revision, name in enumerate(names, start=1):
            following = names[revision] if revision < length else None
            value = draw(st.integers(-5, 5))
            one = sent(name, value, hour=cell % 9, revision=revision, by=following)
            made.append(replace(one, subject=f"s{cell}"))
    return made


def compared(books: list[Booking], those: list[SentDelivery]) -> Reconciliation:
    return reconcile(books, those, SCOPE, {})


def kinds(found: Reconciliation) -> list[tuple[DifferenceKind, str]]:
    return [(one.kind, one.delivery_id) for one in found.differences]


@given(deliveries(), st.randoms(), st.booleans())
def test_a_true_book_differs_in_nothing_whatever_its_order(
    those: list[SentDelivery], random: Random, ids_only: bool
) -> None:
    books = [booking(one) for one in those if one.superseded_by is None]
    if ids_only:
        books = [Booking(one.delivery_id) for one in books]
    random.shuffle(books)
    found = compared(books, those)
    assert found.differences == ()
    assert (found.sent, found.equal, found.outside) == (len(those), len(books), 0)
    assert found.replaced == len(those) - len(books)


@given(deliveries())
def test_a_log_of_all_that_came_is_a_true_book_too(those: list[SentDelivery]) -> None:
    assert compared(standing([booking(one) for one in those]), those).differences == ()


@given(deliveries(), st.data())
def test_each_error_is_found_and_nothing_else(
    those: list[SentDelivery], data: st.DataObject
) -> None:
    owed = [one for one in those if one.superseded_by is None]
    books = {one.delivery_id: booking(one) for one in owed}
    expected: list[tuple[DifferenceKind, str]] = []
    twice: list[Booking] = []
    for one in owed:
        name = one.delivery_id
        error = data.draw(st.sampled_from(["", "lost", "value", "twice", "digest", "window"]))
        if error == "lost":
            del books[name]
            expected.append((KIND.MISSING, name))
        elif error == "twice":
            twice.append(books[name])
            expected.append((KIND.TWICE, name))
        elif error:
            other: dict[str, object] = {"value": 77 * UNIT, "digest": "other", "window": None}
            changed = {"from_ms": 7, "to_ms": 8} if error == "window" else {error: other[error]}
            books[name] = replace(books[name], **changed)
            expected.append((KIND.DIFFERENT, name))
    for one in those:
        if one.superseded_by is not None and data.draw(st.booleans()):
            books[one.delivery_id] = booking(one)
            expected.append((KIND.SUPERSEDED, one.delivery_id))
    if data.draw(st.booleans()):
        books["never"] = Booking("never", UNIT)
        expected.append((KIND.EXTRA, "never"))
    found = compared([*books.values(), *twice], those)
    assert sorted(kinds(found)) == sorted(expected)
    wrong = {name for _, name in expected}
    assert found.equal == sum(one.delivery_id not in wrong for one in owed)
    assert sum(found.count(kind) for kind in KIND) == len(found.differences)


def test_bookings_of_other_reports_and_windows_are_left_out() -> None:
    one = sent("a")
    others = [
        Booking("x", report="other"),
        Booking("y", report="01R", from_ms=-HOUR_MS, to_ms=0),
        Booking("z", from_ms=9 * HOUR_MS, to_ms=10 * HOUR_MS),
    ]
    found = compared([booking(one), *others], [one])
    assert (found.differences, found.outside) == ((), 3)
    assert unknown([booking(one), *others, Booking("w")], [one], SCOPE) == ["w"]


def test_another_report_or_revision_is_different() -> None:
    one = sent("a")
    other, later = replace(booking(one), report="other"), replace(booking(one), revision=2)
    for wrong, said in (
        (other, "booked other, sent 01R or tokens-daily: booked for another report"),
        (later, "booked revision 2, sent revision 1: booked as another revision"),
    ):
        (found,) = compared([wrong], [one]).differences
        assert found.kind is KIND.DIFFERENT
        assert said in found.line


def test_what_is_not_said_is_not_compared() -> None:
    one = replace(sent("a"), value=None, digests=frozenset({"b2-a"}))
    assert compared([Booking("a", value=5, digest="B2-A")], [one]).differences == ()


@pytest.mark.parametrize(
    ("state", "attempts", "reason", "cause"),
    [
        (
            "delivered",
            2,
            "",
            "delivered: the receiver answered 2xx, but did not book it, or lost it",
        ),
        ("failed", 8, "it said 500", "failed after 8 attempts: it said 500; replay it"),
        ("cancelled", 0, "", "cancelled before it arrived"),
        ("retrying", 3, "timed out", "not delivered yet, 3 attempts so far: timed out"),
        ("sending", 1, "", "being sent, attempt 1"),
        ("pending", 0, "", "not sent yet: it waits for its first attempt"),
    ],
)
def test_what_is_missing_has_a_cause(state: str, attempts: int, reason: str, cause: str) -> None:
    one = replace(sent("a"), state=state, attempts=attempts, reason=reason)
    (found,) = compared([], [one]).differences
    assert found.cause == cause
    window = "1970-01-01T00:00:00Z/1970-01-01T01:00:00Z"
    assert found.line == f"missing a s-a {window}: booked nothing, sent 1: {cause}"


def test_what_is_extra_says_where_it_belongs() -> None:
    place = Elsewhere("other", 0, HOUR_MS)
    found = reconcile(
        [Booking("a"), Booking("b", 2 * UNIT), Booking("c")], [], SCOPE, {"a": place, "b": None}
    )
    causes = [one.cause for one in found.differences]
    assert causes[0].startswith("it belongs to report other, window 1970-01-01T00:00:00Z/")
    assert causes[1] == "Meterline has no such delivery"
    assert causes[2].endswith("because there are too many")
    assert found.differences[1].line == (
        "extra b: booked 2, sent nothing: Meterline has no such delivery"
    )


def test_what_is_superseded_says_whether_its_successor_is_booked() -> None:
    first, second = sent("a", by="b"), sent("b", 3, revision=2)
    (found, _) = compared([booking(first)], [first, second]).differences
    assert (found.kind, found.cause) == (
        KIND.SUPERSEDED,
        "it is superseded by b, which is not booked: book that one instead",
    )
    both = [replace(booking(one), revision=None) for one in (first, second)]
    (found,) = compared(both, [first, second]).differences
    assert found.cause == "it is superseded by b, which is booked too: remove this booking"


def test_differences_come_by_window() -> None:
    those = [sent("b", hour=2), sent("c", hour=1), sent("a", hour=1)]
    assert [one.delivery_id for one in compared([], those).differences] == ["a", "c", "b"]
