"""Trace contexts, by the rules of W3C Trace Context; what is sampled; how much is linked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.limits import TRACE_LINKS_MAX, TRACE_STATE_CHARS_MAX
from meterline.ports import TraceContext, is_sampled, links_of, parse_traceparent, trace_headers

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WELL = f"00-{TRACE}-{SPAN}-01"


def context(trace: int, span: int = 1, *, sampled: bool = True) -> TraceContext:
    return TraceContext(trace, span, sampled)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read(trace: int, span: int, sampled: bool) -> None:
    written = TraceContext(trace, span, sampled)
    assert parse_traceparent(written.traceparent) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        WELL[:-1],
        f"{WELL}-",
        f"{WELL}-more",  # version 00 has nothing after its flags
        f" {WELL}",
        WELL.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        WELL.replace("1", "\u0661"),
        f"{WELL}\n",
    ],
)
def test_what_must_be_ignored_is(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_higher_version_is_read_by_what_it_shares() -> None:
    for text in (f"cc-{TRACE}-{SPAN}-09", f"cc-{TRACE}-{SPAN}-09-what-the-future"):
        found = parse_traceparent(text)
        assert found is not None
        assert (found.trace, found.sampled) == (TRACE, True)


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False)])
def test_one_bit_of_the_flags_says_what_is_sampled(flags: str, sampled: bool) -> None:
    found = parse_traceparent(WELL[:-2] + flags)
    assert found is not None
    assert found.sampled is sampled


def test_a_state_is_passed_on_or_dropped_alone() -> None:
    for state, kept in (
        ("rojo=00f067,congo=t61", "rojo=00f067,congo=t61"),
        ("é=1", ""),
        ("a" * (TRACE_STATE_CHARS_MAX + 1), ""),
    ):
        found = parse_traceparent(WELL, state)
        assert found is not None
        assert found.state == kept
        told = trace_headers(found)
        assert told["traceparent"] == WELL
        assert told.get("tracestate", "") == kept


def test_a_child_follows_its_parent_and_a_root_the_ratio() -> None:
    one = context(1)
    assert is_sampled(one, (), 0.0, 0.9)
    assert not is_sampled(context(1, sampled=False), [one], 1.0, 0.0)
    assert is_sampled(None, [one], 0.0, 0.9)
    assert [is_sampled(None, (), 0.01, draw) for draw in (0.0, 0.009, 0.01, 0.5)] == [
        True,
        True,
        False,
        False,
    ]


def test_links_are_capped_and_name_each_sampled_trace_once() -> None:
    many = [context(one % 100 + 1, one + 1, sampled=one % 3 > 0) for one in range(1_000)]
    links = links_of(many)
    assert len(links) == TRACE_LINKS_MAX
    assert len({it.trace_id for it in links}) == TRACE_LINKS_MAX
    assert all(it.sampled for it in links)
    assert links_of([context(7, 1), context(7, 2)]) == [context(7, 1)]
