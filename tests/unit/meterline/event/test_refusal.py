from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.event import (
    ListedEvent,
    RefusalKind,
    RefusalState,
    Settlement,
    Verdict,
    begun,
    dismissed,
    inbox_record,
    is_whole,
    kind_of,
    parse_position,
    position_of,
    position_text,
    timed,
)
from meterline.limits import REJECT_TEXT_BYTES_MAX
from meterline.usage import NO_POSITION

SENT = Settlement(
    (1, 2, 3, 4), "ns", RefusalKind.INBOX, 10, RefusalState.REDRIVING, "ns", "key:1", 20,
    source="s", id="i", check=b"12345678", text=b"{}",
)  # fmt: skip
DISMISSED = replace(
    SENT, state=RefusalState.DISMISSED, note="why", source="", id="", check=b"", text=None
)
RECEIVED_MS = 1_767_225_600_123


def listed(verdict: Verdict, namespace: str = "ns", source: str = "t", id_: str = "3/4") -> Any:
    return ListedEvent(
        1, 2, 3, 4, 10, namespace, "", "", source, id_, 10, 10, b"", verdict, NO_POSITION, "", ""
    )


small = st.integers(0, 65_535)


@given(st.tuples(small, small, st.integers(0, 10**18 - 1), small))
def test_a_position_reads_back(position: tuple[int, int, int, int]) -> None:
    assert parse_position(position_text(position)) == position


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.4.5", "1.2.3.65536", "1.2.3.-4", "a.2.3.4", "1.2.3.4\n", "1.٣.3.4"]
)
def test_what_is_no_position_is_none(text: str) -> None:
    assert parse_position(text) is None


def test_kinds_follow_from_the_verdict_and_whose_it_is() -> None:
    assert kind_of(listed(Verdict.CONFLICT)) is RefusalKind.CONFLICT
    assert kind_of(listed(Verdict.INVALID)) is RefusalKind.INBOX
    assert kind_of(listed(Verdict.INVALID, "")) is RefusalKind.UNREADABLE
    assert kind_of(listed(Verdict.NEW)) is None
    assert kind_of(listed(Verdict.DUPLICATE)) is None
    assert position_of(listed(Verdict.NEW)) == (1, 2, 3, 4)
    assert inbox_record(listed(Verdict.INVALID)) == ("t", 3, 4)
    assert inbox_record(listed(Verdict.CONFLICT)) is None
    assert inbox_record(listed(Verdict.INVALID, "")) is None
    assert inbox_record(listed(Verdict.INVALID, id_="x")) is None


def test_an_event_that_was_put_down_stays() -> None:
    other = replace(SENT, id="another")
    assert begun(None, SENT) is SENT
    assert begun(DISMISSED, SENT) is SENT
    assert begun(SENT, other) is SENT
    done = replace(SENT, state=RefusalState.REDRIVEN, text=None)
    assert begun(done, other) is done


def test_what_was_sent_is_not_dismissed() -> None:
    assert dismissed(None, DISMISSED) is DISMISSED
    assert dismissed(SENT, DISMISSED) is SENT
    again = replace(DISMISSED, at_ms=99)
    assert dismissed(DISMISSED, again) is DISMISSED, "it says nothing more"
    assert dismissed(DISMISSED, changed := replace(again, note="other")) is changed


def test_an_event_is_the_same_by_identity_and_contents() -> None:
    assert SENT.same_event(replace(SENT, at_ms=1, author="key:2", state=RefusalState.REDRIVEN))
    for other in ({"id": "x"}, {"source": "x"}, {"check": b"x"}, {"namespace": "x"}):
        assert not SENT.same_event(replace(SENT, **other))
    assert not DISMISSED.same_event(DISMISSED)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (b"", True),
        ("é{".encode(), True),
        (b"\xff", False),
        ("a\ufffdb".encode(), False),
        (b"x" * (REJECT_TEXT_BYTES_MAX - 1), True),
        (b"x" * REJECT_TEXT_BYTES_MAX, False),
    ],
)
def test_a_text_that_was_cut_or_mended_is_not_whole(text: bytes, *, whole: bool) -> None:
    assert is_whole(text) is whole


members = st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=3))


@given(members, st.none() | st.just("2026-01-01T00:00:00Z") | st.just(msgspec.UNSET))
def test_an_event_counts_when_it_was_received(document: dict[str, Any], own: Any) -> None:
    if own is not msgspec.UNSET:
        document["time"] = own
    text = msgspec.json.encode(document)
    after = msgspec.json.decode(timed(text, RECEIVED_MS))
    if own not in (None, msgspec.UNSET):
        assert timed(text, RECEIVED_MS) == text
    else:
        assert after == {**document, "time": "2026-01-01T00:00:00.123Z"}
