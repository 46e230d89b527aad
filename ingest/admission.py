"""Admission: the body of a request becomes events for the log, or a problem that names every fault.

An event is taken as its own text, with `namespace` and `recordedtime` spliced in as bytes: nothing
is re-encoded (docs/architecture.md, "Ingest"). Each event is first looked at quickly; whatever the
quick look does not accept is judged exactly by `ingest.judgement`, which alone refuses
(OpenMeter's v3). All of a request is admitted, or nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from ingest.judgement import (
    EXTENSION_NAME,
    KNOWN,
    RESERVED,
    Span,
    faults_of,
    long_integers,
    refusal,
    too_large,
)
from ingest.splitting import split
from meterline.event import Event, decode_event, identity_key, partition_of
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    BATCH_EVENTS_MAX,
    EVENT_BYTES_MAX,
    EVENT_TIME_MAX_MS,
    EVENT_TIME_MIN_MS,
    JSON_DEPTH_MAX,
    JUDGED_BYTES_MAX,
    PROBLEM_ERRORS_MAX,
)
from meterline.problem import Fault, Problem, ProblemType
from meterline.window import rfc3339_ms

Admitted = tuple[int, bytes]
"""Partition of the log, and the event's text with what the gateway adds."""


class BodyForm(Enum):
    """What a body holds, by its content type."""

    ONE = "application/cloudevents+json"
    BATCH = "application/cloudevents-batch+json"
    EITHER = "application/json"


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """Bounds that an operator may set; those of time are distances from `recordedtime`."""

    partitions: int
    event_bytes_max: int = EVENT_BYTES_MAX
    batch_events_max: int = BATCH_EVENTS_MAX
    past_ms_max: int | None = None
    future_ms_max: int | None = None

    def span(self, recorded_ms: int) -> Span:
        """The instants that an event's own time may lie at, first and last, as of now."""
        first_ms, last_ms = EVENT_TIME_MIN_MS, EVENT_TIME_MAX_MS - 1
        if self.past_ms_max is not None:
            first_ms = max(first_ms, recorded_ms - self.past_ms_max)
        if self.future_ms_max is not None:
            last_ms = min(last_ms, recorded_ms + self.future_ms_max)
        last = _moment(last_ms) + _LAST_MICROSECOND
        return Span(first_ms, last_ms, _moment(first_ms), last)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MICROSECOND: Final = timedelta(microseconds=999)
_WHITE: Final = b" \t\r\n"
_Unset = msgspec.UnsetType
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=ATTRIBUTE_CHARS_MAX)]


class _Event(msgspec.Struct, gc=False):
    """An event as nearly all are. Members that are not named here are passed over."""

    id: _Text
    source: _Text
    type: _Text
    subject: _Text
    specversion: Literal["1.0"]
    time: Annotated[datetime, msgspec.Meta(tz=True)] | _Unset | None = msgspec.UNSET
    datacontenttype: Literal["application/json"] | _Unset | None = msgspec.UNSET
    dataschema: _Text | _Unset | None = msgspec.UNSET
    data: dict[str, object] | _Unset | None = msgspec.UNSET


# Of a number with a point only the form matters here: `len` is a cheap hook that makes no string.
_decode: Final = msgspec.json.Decoder(_Event, float_hook=len).decode
_decode_any: Final = msgspec.json.Decoder(dict[str, object], float_hook=len).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TOO_DEEP: Final = -(1 << 40)  # as a count of strings: equal to no count of quotes


def body_form(content_type: str | None) -> BodyForm:
    """What the media type promises; its parameters are tolerated. Raises `Problem`."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    try:
        return BodyForm(media_type)
    except ValueError:
        found = f"is {media_type[:100]!r}" if media_type else "is missing"
        accepted = ", ".join(form.value for form in BodyForm)
        detail = f"Content-Type {found}. Set it to one of: {accepted}."
        raise Problem(ProblemType.UNSUPPORTED_CONTENT_TYPE, detail) from None


def admit(
    body: bytes, form: BodyForm, namespace: str, recorded_ms: int, rules: AdmissionRules
) -> list[Admitted]:
    """The events of a body, ready for the log, in its order.

    An empty batch is admitted as no events, as the peer does: a sender that flushes on a timer has
    nothing to correct. Raises `Problem` (invalid-event, body-too-large) with all faults.
    """
    texts, batch = _texts(body, form, rules)
    # then no string holds a control character: the quick look need not ask of each
    clean = body.isascii() and b"\\" not in body and b"\x7f" not in body
    tail, span = _frame(namespace, recorded_ms, rules)
    size_max = rules.event_bytes_max
    partitions = rules.partitions
    admitted: list[Admitted] = []
    faults: list[Fault] = []
    judged_bytes = 0
    for index, raw in enumerate(texts):
        text = bytes(raw)
        spliced = text[:-1] + tail
        place = index if batch else None
        # One that is too large is not looked into: it could be all of the body.
        large = len(spliced) > size_max
        event: _Event | Event | None = None if large else _quickly(text, span, clean)
        if event is None:
            if large:
                found = [too_large(len(spliced), size_max, place)]
            else:
                found = _judged(text, spliced, span, place)
            faults += found
            judged_bytes += len(text)
            # Refused it is; further faults are named only while that is cheap.
            if len(faults) >= PROBLEM_ERRORS_MAX or (faults and judged_bytes > JUDGED_BYTES_MAX):
                break
            if found:
                continue
            event = decode_event(spliced)
        key = identity_key(namespace, event.source, event.id)
        admitted.append((partition_of(key, partitions), spliced))
    if faults:
        raise refusal(faults)
    return admitted


def _texts(
    body: bytes, form: BodyForm, rules: AdmissionRules
) -> tuple[Sequence[bytes | msgspec.Raw], bool]:
    """The texts of the events, and whether they came as a batch."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise refusal([Fault("", f"not UTF-8 at byte {error.start}", "encoding")]) from error
    body = body.strip(_WHITE)
    array = body.startswith(b"[")
    if form is BodyForm.ONE and array:
        reason = f"must be one event, not an array; send a batch as {BodyForm.BATCH.value}"
        raise refusal([Fault("", reason, "type")])
    if form is BodyForm.BATCH and not array:
        reason = f"must be an array of events; send a single event as {BodyForm.ONE.value}"
        raise refusal([Fault("", reason, "type")])
    if not array:
        return [body], False
    return split(body, rules.batch_events_max, rules.event_bytes_max), True


def _quickly(text: bytes, span: Span, clean: bool) -> _Event | None:  # noqa: FBT001
    """The event, where it is plainly good; None says nothing yet."""
    try:
        event = _decode(text)
    except _UNREADABLE:
        return None
    strings = 10  # names and values of the five required members
    time = event.time
    if time is not msgspec.UNSET:
        strings += 1
        if time is not None:
            strings += 1
            # Rounded to microseconds, up as well, where what counts is cut: so never the first.
            if not span.first < time <= span.last:
                return None
    if event.datacontenttype is not msgspec.UNSET or event.dataschema is not msgspec.UNSET:
        strings += _strings_of_optional(event)
    data = event.data
    if data is not msgspec.UNSET:
        strings += 1
        if data:
            strings += _strings(data.values(), 2) + len(data)
    if not (clean or (event.id + event.source + event.type + event.subject).isprintable()):
        return None  # it may hold a control character
    # A member that is repeated is in the text twice, and once in what was decoded; one that is not
    # known is in the text only. So the strings are as many as the text's pairs of quotes, or the
    # text holds such a member.
    quotes = text.count(b'"') if clean else _quotes(text)
    if quotes == 2 * strings or (quotes > 2 * strings >= 0 and _extends_well(text, quotes)):
        return event
    return None


def _strings_of_optional(event: _Event) -> int:
    strings = 0
    for value in (event.datacontenttype, event.dataschema):
        if value is not msgspec.UNSET:
            strings += 1 if value is None else 2
            if value and not value.isprintable():
                return _TOO_DEEP
    return strings


def _strings(values: Iterable[object], depth: int) -> int:
    """How many strings values hold, names of members included; far below 0 where too deep."""
    kinds = [*map(type, values)]
    count = kinds.count(str)
    if dict in kinds or list in kinds:
        if depth >= JSON_DEPTH_MAX:
            return _TOO_DEEP
        for value in values:
            if type(value) is dict:
                count += len(value) + _strings(value.values(), depth + 1)
            elif type(value) is list:
                count += _strings(value, depth + 1)
    return count


def _quotes(text: bytes) -> int:
    """How many quotes of a JSON text begin or end a string."""
    if b"\\" not in text:
        return text.count(b'"')
    text = text.replace(b"\\\\", b"")  # now a backslash before a quote escapes it
    return text.count(b'"') - text.count(b'\\"')


def _extends_well(text: bytes, quotes: int) -> bool:
    """Whether an event that is good but for members not known yet has only good extensions."""
    try:
        members = _decode_any(text)
    except _UNREADABLE:
        return False
    if 2 * (len(members) + _strings(members.values(), 1)) != quotes:
        return False
    for name in members.keys() - KNOWN:
        value = members[name]
        if name in RESERVED or EXTENSION_NAME.fullmatch(name) is None:
            return False
        if type(value) is str:
            if not value.isprintable() or len(value) > ATTRIBUTE_CHARS_MAX:
                return False
        elif type(value) is dict or type(value) is list:
            return False
    return True


def _judged(text: bytes, spliced: bytes, span: Span, index: int | None) -> list[Fault]:
    """Every fault of an event; none where it is good after all, and then the log can be read."""
    faults = faults_of(text, span, index)
    if faults:
        return faults
    try:
        decode_event(spliced)
        _decode_any(text)  # members that counting does not read, but whoever lists events does
    except (ValueError, RecursionError, OverflowError) as error:
        return long_integers(text, index) or [Fault("", f"cannot be read: {error}", index=index)]
    return []


@lru_cache(maxsize=4)
def _frame(namespace: str, recorded_ms: int, rules: AdmissionRules) -> tuple[bytes, Span]:
    """What depends on the moment only: requests of one millisecond share it."""
    return _tail(namespace, recorded_ms), rules.span(recorded_ms)


def _tail(namespace: str, recorded_ms: int) -> bytes:
    """What is put in the place of the closing brace."""
    name = msgspec.json.encode(namespace)
    return b',"namespace":%b,"recordedtime":"%b"}' % (name, rfc3339_ms(recorded_ms).encode())


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)
