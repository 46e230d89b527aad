"""Laws of admission: what is admitted can be read, and the quick look agrees with the judgement."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.admission import AdmissionRules, BodyForm, _quickly, admit
from ingest.judgement import faults_of
from meterline.event import (
    Record,
    RecordKind,
    Unreadable,
    decode_event,
    decode_record,
    encode_pack,
    identity_key,
    partition_of,
)
from meterline.limits import EVENT_TIME_MAX_MS, EVENT_TIME_MIN_MS
from meterline.problem import Problem
from meterline.window import parse_instant

pytestmark = pytest.mark.standard  # thousands of bodies

NOW_MS = 1_790_000_000_123
RULES = AdmissionRules(partitions=16)
SPAN = RULES.span(NOW_MS)

# Letters that make trouble: quotes, backslashes, braces, controls, surrogates, wide ones.
CHARACTERS = st.one_of(
    st.sampled_from(list('"\\{}[]:,a \x00\x1f\x7f\x85\u00a0\u00e9\u20ac\ud800\udfff\U0001f600')),
    st.characters(),
)
TEXTS = st.text(CHARACTERS, max_size=8)
NAMES = st.one_of(st.sampled_from(["a", "b", "id", "time", "data", "namespace", "n\u00e9"]), TEXTS)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.just(10**30), st.just(-0.0)
)


class Pairs(list[tuple[str, object]]):
    """An object as it stands in a text: its members in order, repeated ones too."""


VALUES: st.SearchStrategy[object] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(Pairs),
    ),
    max_leaves=8,
)


def escaped(text: str, draw: st.DrawFn, ascii_only: bool) -> str:
    """A JSON string, some of its letters spelled as escapes."""
    spelled = json.dumps(text, ensure_ascii=ascii_only)
    if text and draw(st.integers(0, 9)) == 0 and text[0] <= "\uffff":
        return f'"\\u{ord(text[0]):04x}{json.dumps(text[1:], ensure_ascii=ascii_only)[1:]}'
    return spelled


def written(value: object, draw: st.DrawFn, ascii_only: bool) -> str:
    """JSON text of a value, with white space anywhere that it may be."""
    gap = draw(st.sampled_from(["", "", "", " ", "\n\t"]))
    if isinstance(value, Pairs):
        members = [
            f"{gap}{escaped(name, draw, ascii_only)}{gap}:{gap}{written(inner, draw, ascii_only)}"
            for name, inner in value
        ]
        return "{" + ",".join(members) + gap + "}"
    if isinstance(value, list):
        return "[" + ",".join(gap + written(v, draw, ascii_only) + gap for v in value) + "]"
    return escaped(value, draw, ascii_only) if isinstance(value, str) else json.dumps(value)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Texts of events, mostly good ones, with every kind of oddity now and then."""
    letters = "abc-\u00e9" if draw(st.integers(0, 4)) else "abc\u00a0\\"
    ordinary = st.text(letters, min_size=1, max_size=9)
    members = [
        ("specversion", draw(st.sampled_from(["1.0"] * 30 + ["0.3", 1.0]))),
        *((name, draw(ordinary)) for name in ("id", "source", "type", "subject")),
    ]
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+02:00", "2200-01-01T00:00:00Z"]
    optional: list[tuple[str, st.SearchStrategy[object]]] = [
        ("time", st.sampled_from([*times, None, "now", 5])),
        ("datacontenttype", st.sampled_from(["application/json", None, "text/xml"])),
        ("dataschema", st.one_of(st.none(), ordinary)),
        ("data", st.lists(st.tuples(NAMES, VALUES), max_size=4).map(Pairs)),
        ("traceparent", SCALARS),
        ("extension", VALUES),
    ]
    for name, values in optional:
        if draw(st.integers(0, 2)) == 0:
            members.append((name, draw(values)))
    if draw(st.integers(0, 9)) == 0:
        members.append(("data", draw(VALUES)))
    if draw(st.integers(0, 5)) == 0:
        members.append((draw(NAMES), draw(VALUES)))
    if draw(st.integers(0, 9)) == 0:
        members.pop(draw(st.integers(0, len(members) - 1)))
    ordered = Pairs(draw(st.permutations(members)))
    ascii_only = draw(st.booleans())
    return written(ordered, draw, ascii_only).encode(errors="surrogatepass")


@given(bodies())
@settings(max_examples=300, deadline=None)
def test_what_is_admitted_can_be_read_and_is_what_was_sent(body: bytes) -> None:
    try:
        ((partition, stored),) = admit(body, BodyForm.ONE, "space", NOW_MS, RULES)
    except Problem as problem:
        told = msgspec.json.encode(problem.members("urn:request:1"))
        assert b"invalid_parameters" in told
        return
    sent = json.loads(body)
    event = decode_event(stored)
    assert (event.id, event.source) == (sent["id"], sent["source"])
    assert (event.type, event.subject) == (sent["type"], sent["subject"])
    assert (event.namespace, event.recorded_ms) == ("space", NOW_MS)
    assert partition == partition_of(identity_key("space", event.source, event.id), 16)
    assert stored.startswith(body.strip(b" \n\t\r")[:-1])
    kept = json.loads(stored)
    assert kept.pop("namespace") == "space"
    assert kept.pop("recordedtime")
    assert repr(kept) == repr(sent)  # by text, for NaN and -0 would hide in an equality


@given(bodies())
@settings(max_examples=300, deadline=None)
def test_the_quick_look_accepts_only_what_the_judgement_does(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError:
        return  # refused before either sees it
    text = body.strip(b" \n\t\r")
    clean = text.isascii() and b"\\" not in text and b"\x7f" not in text
    quick = _quickly(text, SPAN, clean)
    faults = faults_of(text, SPAN, None)
    if quick is not None:
        assert faults == []
        assert _quickly(text, SPAN, clean=False) is not None
    if not faults:
        assert len(admit(body, BodyForm.ONE, "n", NOW_MS, RULES)) == 1


@given(bodies())
@settings(max_examples=200, deadline=None)
def test_repeated_members_are_found_wherever_they_are(body: bytes) -> None:
    repeated = False

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeated
        repeated |= len(dict(found)) != len(found)
        return dict(found)

    json.loads(body.decode(errors="surrogatepass"), object_pairs_hook=pairs)
    if not repeated:
        return
    try:
        admit(body, BodyForm.ONE, "n", NOW_MS, RULES)
    except Problem:
        return
    raise AssertionError("an event with a repeated member was admitted")


@given(st.lists(bodies(), max_size=6))
@settings(max_examples=80, deadline=None)
def test_a_batch_is_its_events_or_nothing(parts: list[bytes]) -> None:
    alone: list[tuple[int, bytes]] = []
    good = True
    for part in parts:
        try:
            alone += admit(part, BodyForm.ONE, "n", NOW_MS, RULES)
        except Problem:
            good = False
    try:
        together = admit(b"[" + b",".join(parts) + b"]", BodyForm.BATCH, "n", NOW_MS, RULES)
    except Problem as problem:
        assert not good
        assert all(fault.index is None or fault.index < len(parts) for fault in problem.faults)  # noqa: PT017
        return
    assert good
    assert together == alone
    record = Record(0, 0, 0, RecordKind.PACK, encode_pack([t for _, t in together]), "log")
    read = decode_record(record)
    assert not any(isinstance(event, Unreadable) for event in read)
    assert len(read) == len(parts)


@given(st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_no_body_brings_down_admission(body: bytes) -> None:
    for form in BodyForm:
        try:
            admitted = admit(body, form, "n", NOW_MS, RULES)
        except Problem as problem:
            msgspec.json.encode(problem.members(""))
        else:
            assert admitted == []  # only an empty batch is that short


def two(numbers: list[int]) -> st.SearchStrategy[str]:
    return st.sampled_from([f"{number:02d}" for number in numbers])


@st.composite
def times(draw: st.DrawFn) -> str:
    """Timestamps: most are nearly right, many lie at the ends of what is allowed."""
    fractions = ["", ".1", ".123456", ".9999999", ".000000999", "." + "9" * 70, ".", ",5"]
    zones = ["Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+05:30", "+0530", "+05", "", " Z"]
    text = (
        draw(
            st.sampled_from(["1969-12-31", "1970-01-01", "2026-02-29", "2099-12-31", "2100-01-01"])
        )
        + draw(st.sampled_from(["T", "t", " ", "_", ""]))
        + ":".join((draw(two([0, 23, 24])), draw(two([0, 59, 60])), draw(two([0, 59, 60]))))
        + draw(st.sampled_from(fractions))
        + draw(st.sampled_from(zones))
    )
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.text("0123456789TZ:-+. \u0660", max_size=2)) + text[at + 1 :]
    return text


@given(times())
@settings(max_examples=1_500, deadline=None)
def test_the_door_and_the_log_agree_about_times(text: str) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "u"}
    body = json.dumps({**event, "time": text}).encode()
    try:
        expected_ms = parse_instant(text)
    except ValueError:
        expected_ms = None
    try:
        ((_, stored),) = admit(body, BodyForm.ONE, "n", NOW_MS, RULES)
    except Problem as problem:
        (fault,) = problem.faults
        assert fault.field == "time"
        if fault.rule != "is_date_time":
            assert expected_ms is not None
            assert not EVENT_TIME_MIN_MS <= expected_ms < EVENT_TIME_MAX_MS
        return
    assert expected_ms is not None
    assert EVENT_TIME_MIN_MS <= expected_ms < EVENT_TIME_MAX_MS
    assert decode_event(stored).time_ms == expected_ms
