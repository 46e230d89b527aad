"""What is asked of the usage store about traces, and how it keeps out of the way."""

import asyncio
from collections.abc import Sequence

import pytest

from dispatcher.trace_questions import Question, TraceQuestions
from meterline.limits import TRACE_TASKS_MAX
from meterline.ports import TraceContext, Unavailable

CONTEXT = TraceContext(1, 1, sampled=True)
OTHER = TraceContext(2, 2, sampled=True)
Answer = Sequence[tuple[str, TraceContext]] | None


def question(number: int = 1, revision: int = 1) -> Question:
    return Question("default", "t", number, number + 1, revision)


class Store:
    """`EventTraces` that answers once it may."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.may = asyncio.Event()
        self.at_work = self.most_at_work = 0

    async def traced(self, _namespace: str, _type: str, from_ms: int, _to_ms: int) -> Answer:
        self.asked.append(from_ms)
        self.at_work += 1
        self.most_at_work = max(self.at_work, self.most_at_work)
        try:
            await self.may.wait()
        finally:
            self.at_work -= 1
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


async def answered(questions: TraceQuestions, *asked: Question) -> None:
    tasks = [asking.task for it in asked if (asking := questions.ask(it)) is not None]
    assert len(tasks) == len(asked), "all are asked"
    await asyncio.gather(*tasks)


async def test_it_is_asked_once_however_many_want_to_know() -> None:
    store = Store([("a", CONTEXT), ("a", CONTEXT), ("b", OTHER)])
    questions = TraceQuestions(store)
    first, second = questions.ask(question()), questions.ask(question())
    assert first is not None
    assert first == second
    assert questions.known(question()) == {}
    store.may.set()
    await first.task
    assert questions.known(question()) == {"a": [CONTEXT], "b": [OTHER]}
    assert questions.ask(question()) is None
    assert store.asked == [1]


async def test_the_next_question_waits_until_the_query_has_ended() -> None:
    store = Store()
    questions = TraceQuestions(store)
    asking = [questions.ask(question(number)) for number in (1, 2, 3)]
    tasks = [it.task for it in asking if it is not None]
    await asyncio.wait(tasks, timeout=0.05)  # who waits for an answer gives up
    assert store.asked == [1]
    store.may.set()
    await asyncio.gather(*tasks)
    assert (store.asked, store.most_at_work) == ([1, 2, 3], 1)


async def test_questions_that_wait_are_few() -> None:
    store = Store()
    questions = TraceQuestions(store)
    asking = [questions.ask(question(number)) for number in range(TRACE_TASKS_MAX + 2)]
    assert [it is None for it in asking] == [False] * TRACE_TASKS_MAX + [True] * 2
    store.may.set()
    await asyncio.gather(*(it.task for it in asking if it is not None))
    assert questions.ask(question(TRACE_TASKS_MAX)) is not None, "there is room again"
    await questions.close()


async def test_a_revision_is_a_question_of_its_own_and_is_asked_anew() -> None:
    store = Store([("a", CONTEXT)], [("a", OTHER)], [("b", OTHER)])
    store.may.set()
    questions = TraceQuestions(store)
    await answered(questions, question(), question(revision=2))
    assert questions.known(question(revision=2)) == {"a": [OTHER]}
    questions.forget(question(revision=2))
    await answered(questions, question(revision=2))
    assert questions.known(question(revision=2)) == {"b": [OTHER]}
    assert questions.known(question()) == {"a": [CONTEXT]}


async def test_an_answer_that_is_forgotten_while_it_is_asked_is_not_kept() -> None:
    store = Store([("a", CONTEXT)], RuntimeError("a bug"))
    questions = TraceQuestions(store)
    old = questions.ask(question())
    await asyncio.sleep(0)
    questions.forget(question())
    new = questions.ask(question())
    assert old is not None
    assert new is not None
    store.may.set()
    await asyncio.gather(old.task, new.task)
    assert store.asked == [1, 1]
    assert questions.known(question()) == {}


@pytest.mark.parametrize("fault", [Unavailable("away"), RuntimeError("a bug"), None])
async def test_what_failed_is_not_kept_and_is_asked_again_after_a_pause(
    fault: Exception | None,
) -> None:
    store = Store(fault, [("a", CONTEXT)])
    store.may.set()
    questions = TraceQuestions(store)
    await answered(questions, question())
    assert questions.known(question()) == {}
    assert questions.ask(question()) is None, "not at once"
    questions = TraceQuestions(store := Store(fault, [("a", CONTEXT)]), pause_s=0.0)
    store.may.set()
    await answered(questions, question())
    await answered(questions, question())
    assert questions.known(question()) == {"a": [CONTEXT]}


async def test_a_store_that_is_away_is_left_alone_and_one_heavy_question_stops_no_other() -> None:
    store = Store(Unavailable("away"))
    store.may.set()
    questions = TraceQuestions(store)
    await answered(questions, question(1), question(2))
    assert store.asked == [1], "what waited is not asked either"
    assert questions.ask(question(3)) is None
    heavy = Store(None)
    heavy.may.set()
    questions = TraceQuestions(heavy)
    await answered(questions, question(1), question(2))
    assert heavy.asked == [1, 2]


async def test_what_is_under_way_is_given_up_at_the_end() -> None:
    store = Store()
    questions = TraceQuestions(store)
    asking = questions.ask(question())
    await asyncio.sleep(0)
    await questions.close()
    assert asking is not None
    assert asking.task.cancelled()
    assert store.at_work == 0


async def test_nothing_is_asked_where_there_is_no_store() -> None:
    assert TraceQuestions(None).ask(question()) is None
