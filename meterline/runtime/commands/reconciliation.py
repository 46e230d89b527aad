"""Comparing what a receiver booked with what it was sent: rules over both lists.

A delivery is to be booked once, with its value; one whose figures another delivery replaces is not
to stand any more. Figures that nothing was sent for must not be booked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from meterline.number import text
from meterline.window import rfc3339


class DifferenceKind(StrEnum):
    """What is wrong."""

    MISSING = "missing"  # sent, or to be sent, and not booked
    EXTRA = "extra"  # booked, and not among what was sent
    DIFFERENT = "different"  # booked otherwise than sent
    SUPERSEDED = "superseded"  # booked, though another delivery replaces it
    TWICE = "twice"  # booked more than once


@dataclass(frozen=True, slots=True)
class Booking:
    """What a receiver booked under a delivery's id; what it does not say is None, and not compared.

    `value` is a scaled integer, the sum of the entries. `digest` is, in hex, the blake2b-256 or the
    SHA-256 of the body.
    """

    delivery_id: str
    value: int | None = None
    report: str | None = None
    subject: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    revision: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class SentDelivery:
    """A delivery as it was pulled; `value` is None where its bytes are not kept any more."""

    delivery_id: str
    subject: str
    from_ms: int
    to_ms: int
    revision: int
    state: str
    attempts: int
    value: int | None
    digests: frozenset[str]  # of its body, in hex
    superseded_by: str | None = None
    reason: str = ""  # of its last attempt, where that failed
    failure: str | None = None  # why it could not be made: it has no bytes and is never sent


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a delivery belongs that was not among those that were asked for."""

    report: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose deliveries are compared: those of a report (its names) with windows within one."""

    reports: frozenset[str]
    from_ms: int | None = None
    to_ms: int | None = None

    def holds(self, one: Booking) -> bool:
        """Whether a booking is of it, as far as it says."""
        if one.report is not None and one.report not in self.reports:
            return False
        if self.from_ms is not None and one.from_ms is not None and one.from_ms < self.from_ms:
            return False
        return not (self.to_ms is not None and one.to_ms is not None and one.to_ms > self.to_ms)


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding. `booked` and `sent` are what differs, in words; `cause` is why."""

    kind: DifferenceKind
    delivery_id: str
    subject: str | None
    from_ms: int | None
    to_ms: int | None
    booked: str
    sent: str
    cause: str

    @property
    def line(self) -> str:
        """It in a line."""
        parts = [self.kind.value, self.delivery_id]
        if self.subject is not None:
            parts.append(self.subject)
        if self.from_ms is not None and self.to_ms is not None:
            parts.append(f"{rfc3339(self.from_ms)}/{rfc3339(self.to_ms)}")
        message = [f"booked {self.booked}"] if self.booked else []
        message += [f"sent {self.sent}"] if self.sent else []
        return f"{' '.join(parts)}: {', '.join(message)}: {self.cause}"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What came of a comparison. `replaced` were rightly left out; `outside` are bookings of other
    reports or windows.
    """

    differences: tuple[Difference, ...]
    sent: int
    equal: int
    replaced: int
    outside: int

    def count(self, kind: DifferenceKind) -> int:
        """How many differences of a kind."""
        return sum(one.kind is kind for one in self.differences)


def standing(bookings: Sequence[Booking]) -> list[Booking]:
    """Without those that a later line replaces: of lines that say report, window, subject and
    revision, the highest revision stands, as a receiver's book has it.
    """
    highest: dict[tuple[object, ...], int] = {}
    for one in bookings:
        cell = _cell(one)
        if cell is not None and one.revision is not None:
            highest[cell] = max(one.revision, highest.get(cell, 0))
    return [one for one in bookings if _stands(one, highest)]


def _cell(one: Booking) -> tuple[object, ...] | None:
    cell = (one.report, one.from_ms, one.to_ms, one.subject)
    return None if None in (*cell, one.revision) else cell


def _stands(one: Booking, highest: Mapping[tuple[object, ...], int]) -> bool:
    cell = _cell(one)
    return cell is None or highest[cell] == one.revision


def unknown(bookings: Iterable[Booking], sent: Iterable[SentDelivery], scope: Scope) -> list[str]:
    """Ids that are booked and were not pulled: where they belong is to be found out."""
    pulled = {one.delivery_id for one in sent}
    found = {one.delivery_id for one in bookings if scope.holds(one)}
    return sorted(found - pulled)


def reconcile(
    bookings: Sequence[Booking],
    sent: Sequence[SentDelivery],
    scope: Scope,
    elsewhere: Mapping[str, Elsewhere | None],
) -> Reconciliation:
    """Compare. `elsewhere` says of ids from `unknown` where they belong, None where nowhere; of
    those that are not in it nobody asked.

    Differences come by window and id. Nothing is different exactly if each delivery that no other
    replaces is booked once as it was sent, and nothing else of the scope is booked.
    """
    known = {one.delivery_id: one for one in sent}
    mine = [one for one in bookings if one.delivery_id in known or scope.holds(one)]
    booked: dict[str, list[Booking]] = {}
    for one in mine:
        booked.setdefault(one.delivery_id, []).append(one)
    found: list[Difference] = []
    for delivery_id, those in booked.items():
        if delivery_id in known:
            found += _judged(those, known[delivery_id], booked, scope.reports)
        else:
            found.append(_extra(those[0], elsewhere))
        if len(those) > 1:
            found.append(_twice(those))
    owed = [one for one in sent if one.superseded_by is None]
    found += [_missing(one) for one in owed if one.delivery_id not in booked]
    wrong = {one.delivery_id for one in found}
    return Reconciliation(
        differences=tuple(sorted(found, key=_order)),
        sent=len(sent),
        equal=sum(one.delivery_id not in wrong for one in owed),
        replaced=sum(
            one.superseded_by is not None and one.delivery_id not in booked for one in sent
        ),
        outside=len(bookings) - len(mine),
    )


def _order(one: Difference) -> tuple[int, int, str, str]:
    return (one.to_ms or 0, one.from_ms or 0, one.delivery_id, one.kind)


def _judged(
    those: Sequence[Booking],
    sent: SentDelivery,
    booked: Mapping[str, object],
    reports: frozenset[str],
) -> list[Difference]:
    if sent.superseded_by is not None:
        known = "which is booked too: remove this booking"
        if sent.superseded_by not in booked:
            known = "which is not booked: book that one instead"
        cause = f"it is superseded by {sent.superseded_by}, {known}"
        booked_as = _value(those[0].value)
        return [_of(DifferenceKind.SUPERSEDED, sent, booked_as, _value(sent.value), cause)]
    return [
        _of(DifferenceKind.DIFFERENT, sent, booked_as, was, cause)
        for one in those[:1]
        for booked_as, was, cause in _unlike(one, sent, reports)
    ]


def _unlike(
    one: Booking, sent: SentDelivery, reports: frozenset[str]
) -> list[tuple[str, str, str]]:
    """What a booking says otherwise: the first of what can be compared, from the coarse to the
    fine. `reports` are the names of the report.
    """
    if one.report is not None and one.report not in reports:
        return [(one.report, " or ".join(sorted(reports)), "booked for another report")]
    if one.subject is not None and one.subject != sent.subject:
        return [(one.subject, sent.subject, "booked for another subject")]
    window = (one.from_ms, one.to_ms)
    if None not in window and window != (sent.from_ms, sent.to_ms):
        booked_as, was = _window(one.from_ms, one.to_ms), _window(sent.from_ms, sent.to_ms)
        return [(booked_as, was, "booked for another window")]
    if one.revision is not None and one.revision != sent.revision:
        booked_as, was = f"revision {one.revision}", f"revision {sent.revision}"
        return [(booked_as, was, "booked as another revision: keep the highest one")]
    if one.value is not None and sent.value is not None and one.value != sent.value:
        cause = "a delivery never changes: it was booked wrongly, or changed later"
        return [(_value(one.value), _value(sent.value), cause)]
    if one.digest is not None and sent.digests and one.digest.lower() not in sent.digests:
        cause = "the value is the same, but the digest is of another body"
        return [(one.digest, " or ".join(sorted(sent.digests)), cause)]
    return []


def _missing(sent: SentDelivery) -> Difference:
    return _of(DifferenceKind.MISSING, sent, "", _value(sent.value), _why_missing(sent))


def _why_missing(sent: SentDelivery) -> str:
    if sent.failure is not None:
        return f"it has no body, so there is nothing to book: {sent.failure}"
    because = f": {sent.reason}" if sent.reason else ""
    match sent.state:
        case "delivered":
            return "delivered: the receiver answered 2xx, but did not book it, or lost it"
        case "failed":
            return f"failed after {sent.attempts} attempts{because}; replay it"
        case "cancelled":
            return f"cancelled before it arrived{because}"
        case "retrying":
            return f"not delivered yet, {sent.attempts} attempts so far{because}"
    if sent.attempts:
        return f"being sent, attempt {sent.attempts}{because}"
    return "not sent yet: it waits for its first attempt"


def _extra(one: Booking, elsewhere: Mapping[str, Elsewhere | None]) -> Difference:
    cause = "not among the deliveries compared; it was not looked up, because there are too many"
    if one.delivery_id in elsewhere:
        place = elsewhere[one.delivery_id]
        cause = "Meterline has no such delivery"
        if place is not None:
            window = _window(place.from_ms, place.to_ms)
            cause = f"it belongs to report {place.report}, window {window}"
    return _at(DifferenceKind.EXTRA, one, "nothing", cause)


def _twice(those: Sequence[Booking]) -> Difference:
    cause = f"booked {len(those)} times: book each id once"
    return _at(DifferenceKind.TWICE, those[0], "", cause)


def _at(kind: DifferenceKind, one: Booking, was: str, cause: str) -> Difference:
    booked_as = _value(one.value)
    return Difference(
        kind, one.delivery_id, one.subject, one.from_ms, one.to_ms, booked_as, was, cause
    )


def _of(
    kind: DifferenceKind, sent: SentDelivery, booked_as: str, was: str, cause: str
) -> Difference:
    return Difference(
        kind,
        sent.delivery_id,
        sent.subject,
        sent.from_ms,
        sent.to_ms,
        booked_as or "nothing",
        was,
        cause,
    )


def _value(value: int | None) -> str:
    return "something" if value is None else text(value)


def _window(from_ms: int | None, to_ms: int | None) -> str:
    assert from_ms is not None
    assert to_ms is not None
    return f"{rfc3339(from_ms)}/{rfc3339(to_ms)}"
