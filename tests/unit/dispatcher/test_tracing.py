"""The trace of an event ends with the delivery that reports it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dispatcher.tracing import ReportTraces
from meterline.limits import TRACE_LINKS_MAX
from meterline.ports import TraceContext, Unavailable, Work
from tests.traced.book import Book
from tests.unit.dispatcher.conftest import START_MS, Mailbox, Rig
from tests.unit.dispatcher.sending.steps import END_MS, Mailboxes, arrived, made, until, working

SUBJECTS = ["acme", "beta"]


def context(number: int) -> TraceContext:
    return TraceContext(number, number, sampled=True, state="a=b")


class Events:
    """`EventTraces` as the test says."""

    def __init__(
        self, found: Sequence[tuple[str, TraceContext]], fault: Exception | None = None
    ) -> None:
        self.found = found
        self.fault = fault
        self.asked: list[tuple[str, str, int, int]] = []
        self.may = asyncio.Event()
        self.may.set()

    async def traced(
        self, namespace: str, event_type: str, from_ms: int, to_ms: int
    ) -> Sequence[tuple[str, TraceContext]]:
        self.asked.append((namespace, event_type, from_ms, to_ms))
        await asyncio.sleep(0.01)
        await self.may.wait()
        if self.fault is not None:
            raise self.fault
        return self.found


async def sent(rig: Rig, box: Mailbox, book: Book, events: Events) -> dict[str, str]:
    """A run and its deliveries; what the receiver was told of traces, by subject."""
    rig.sources = replace(rig.sources, traces=ReportTraces(book, events))
    await made(rig, await rig.report(box.url), SUBJECTS)
    async with working(rig):
        await until(lambda: arrived(box, len(SUBJECTS)))
    told = (post.headers.get("traceparent", "") for post in box.posts)
    return dict(zip(box.subjects, told, strict=True))


async def test_a_delivery_is_sent_in_the_trace_of_an_event_that_it_reports(
    rig: Rig, mailbox: Mailboxes
) -> None:
    book = Book()
    events = Events([("acme", context(1)), ("acme", context(2)), ("other", context(3))])
    told = await sent(rig, await mailbox(), book, events)
    assert events.asked == [("default", rig.meter.event_type, START_MS, END_MS)], "asked once"
    (run,) = book.ended(Work.RUN)
    assert run.links == [context(1), context(2), context(3)]
    attempts = {page.parent: page for page in book.ended(Work.DELIVER)}
    acme, beta = attempts[context(1)], attempts[run.context]
    assert acme.links == [context(2), run.context]
    assert run.since_ns is not None
    assert run.until_ns is not None
    assert run.since_ns < run.until_ns < run.context.span_id, "it had ended when it was told"
    assert told == {"acme": acme.context.traceparent, "beta": beta.context.traceparent}
    assert acme.attributes["http.response.status_code"] == 200
    assert "acme" not in repr(book.pages)


async def test_an_attempt_that_failed_says_how(rig: Rig, mailbox: Mailboxes) -> None:
    box, book = await mailbox(), Book()
    box.answers = [503, 503]
    rig.sources = replace(rig.sources, traces=ReportTraces(book, Events([("acme", context(1))])))
    await made(rig, await rig.report(box.url), ["acme"])
    async with working(rig):
        await until(lambda: arrived(box, 3))
    failed, again, well = book.ended(Work.DELIVER)
    assert (failed.failure, well.failure) == ("refused", "")
    assert failed.attributes["http.response.status_code"] == 503
    assert [it.attributes["http.request.resend_count"] for it in (failed, again, well)] == [0, 1, 2]
    assert {it.context.trace_id for it in (failed, again, well)} == {1}


@pytest.mark.parametrize("fault", [Unavailable("away"), RuntimeError("a bug"), None])
async def test_where_no_trace_is_known_deliveries_go_untraced(
    rig: Rig, mailbox: Mailboxes, fault: Exception | None
) -> None:
    book = Book()
    told = await sent(rig, await mailbox(), book, Events([], fault))
    assert told == {"acme": "", "beta": ""}
    assert book.pages == []


async def test_the_ratio_begins_traces_of_runs(rig: Rig, mailbox: Mailboxes) -> None:
    book = Book(ratio=1.0)
    told = await sent(rig, await mailbox(), book, Events([]))
    (run,) = book.ended(Work.RUN)
    assert run.parent is None
    attempts = book.ended(Work.DELIVER)
    assert [page.parent for page in attempts] == [run.context] * 2
    assert set(told.values()) == {page.context.traceparent for page in attempts}


async def test_links_of_a_run_are_capped_and_what_is_remembered_is(
    rig: Rig, mailbox: Mailboxes
) -> None:
    book = Book()
    many = [(f"s{one}", context(one)) for one in range(1, 500)]
    await sent(rig, await mailbox(), book, Events(many))
    (run,) = book.ended(Work.RUN)
    assert len(run.links) == TRACE_LINKS_MAX


async def test_without_a_tracer_nothing_is_asked(rig: Rig, mailbox: Mailboxes) -> None:
    box, events = await mailbox(), Events([("acme", context(1))])
    rig.sources = replace(rig.sources, traces=ReportTraces(events=events))
    await made(rig, await rig.report(box.url), SUBJECTS)
    async with working(rig):
        await until(lambda: arrived(box, 2))
    assert events.asked == []
    assert all("traceparent" not in post.headers for post in box.posts)


async def test_neither_runs_nor_deliveries_wait_for_a_store_that_does_not_answer(
    rig: Rig, mailbox: Mailboxes
) -> None:
    box, book, events = await mailbox(), Book(), Events([("acme", context(1))])
    events.may.clear()
    traces = ReportTraces(book, events)
    rig.sources = replace(rig.sources, traces=traces)
    await made(rig, await rig.report(box.url), SUBJECTS)
    async with working(rig):
        await until(lambda: arrived(box, len(SUBJECTS)))
        assert book.pages == []
        assert all("traceparent" not in post.headers for post in box.posts)
        events.may.set()
        await until(lambda: _told(book))
    assert book.ended(Work.RUN)[0].links == [context(1)]
    assert len(events.asked) == 1


async def _told(book: Book) -> bool:
    return bool(book.ended(Work.RUN))


async def test_a_dispatcher_that_ends_gives_up_what_it_asks(rig: Rig, mailbox: Mailboxes) -> None:
    box, book, events = await mailbox(), Book(), Events([])
    events.may.clear()
    rig.sources = replace(rig.sources, traces=ReportTraces(book, events))
    await made(rig, await rig.report(box.url), ["acme"])
    async with working(rig):
        await until(lambda: arrived(box, 1))
    here = asyncio.current_task()
    left = [repr(it) for it in asyncio.all_tasks() if it is not here]
    assert [it for it in left if "tell" in it or "_ask" in it] == []
    assert book.pages == []
