"""Which traces the events of a window belong to, asked of the usage store beside the work: once for
each meter, window and revision in each process, and one question at a time.

Nobody waits for the store. A question that failed is asked again, after a pause.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import structlog

from meterline.event import EventTraces
from meterline.limits import TRACE_PAUSE_S, TRACE_TASKS_MAX, TRACED_RUNS_REMEMBERED_MAX
from meterline.ports import TraceContext, Unavailable

_log: Final = structlog.get_logger("dispatcher")
K = TypeVar("K")
V = TypeVar("V")
BySubject = Mapping[str, Sequence[TraceContext]]
_NONE: Final[BySubject] = {}


class Question(NamedTuple):
    """Of which events traces are asked for. A revision is made because more events came: what was
    known before does not answer it.
    """

    namespace: str
    event_type: str
    from_ms: int
    to_ms: int
    revision: int


class Asking(NamedTuple):
    """A question under way, and since when, in seconds of the loop."""

    task: asyncio.Task[None]
    since_s: float


class TraceQuestions:
    """Questions to `events`, and their answers. The oldest answers are forgotten."""

    def __init__(self, events: EventTraces | None, pause_s: float = TRACE_PAUSE_S) -> None:
        self._events = events
        self._pause_s = pause_s
        self._known: OrderedDict[Question, BySubject] = OrderedDict()
        self._asking: dict[Question, Asking] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # of those forgotten meanwhile, too
        self._again_s: OrderedDict[Question, float] = OrderedDict()  # not before then
        self._away_until_s = 0.0  # the store
        self._turn = asyncio.Semaphore(1)  # whoever counts and reports has the store for the rest

    def known(self, question: Question) -> BySubject:
        """The answer, by subject; empty while there is none."""
        return self._known.get(question, _NONE)

    def forget(self, question: Question) -> None:
        """More events came since it was asked: it is asked anew."""
        self._known.pop(question, None)
        self._asking.pop(question, None)
        self._again_s.pop(question, None)

    def ask(self, question: Question) -> Asking | None:
        """Ask, however many want to know. None: it is answered, or is not asked now, as the store
        failed a moment ago or too many wait.
        """
        asking = self._asking.get(question)
        if asking is None and question not in self._known and self._may_ask(question):
            task = asyncio.create_task(self._ask(question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            asking = self._asking[question] = Asking(task, _now_s())
        return asking

    async def close(self) -> None:
        """Give up what is under way."""
        await given_up(self._tasks)

    def _may_ask(self, question: Question) -> bool:
        return (
            self._events is not None
            and len(self._tasks) < TRACE_TASKS_MAX
            and _now_s() >= max(self._away_until_s, self._again_s.get(question, 0.0))
        )

    async def _ask(self, question: Question) -> None:
        answer: BySubject | None = None
        try:
            # Without a timeout of its own: a query holds the store for as long as it runs,
            # whether anybody waits for it or not. The store bounds it.
            async with self._turn:
                if _now_s() >= self._away_until_s:
                    answer = await self._found(question)
        except Unavailable as error:
            self._away_until_s = _now_s() + self._pause_s
            _log.debug("traces", action="unavailable", reason=str(error))
        except Exception:  # noqa: BLE001 - a trace must not keep a delivery from being sent
            _log.exception("traces", action="failed")
        asking = self._asking.get(question)
        if asking is None or asking.task is not asyncio.current_task():
            return  # forgotten meanwhile
        del self._asking[question]
        if answer is None:
            remember(self._again_s, question, _now_s() + self._pause_s)
        else:
            remember(self._known, question, answer)

    async def _found(self, question: Question) -> BySubject | None:
        assert self._events is not None, "else nothing is asked"
        asked = question.namespace, question.event_type, question.from_ms, question.to_ms
        pairs = await self._events.traced(*asked)
        if pairs is None:
            return None
        found: dict[str, list[TraceContext]] = defaultdict(list)
        for subject, context in pairs:
            if context not in found[subject]:
                found[subject].append(context)
        return dict(found)


async def given_up(tasks: set[asyncio.Task[None]]) -> None:
    """End these tasks; whatever became of them."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def remember(kept: OrderedDict[K, V], name: K, value: V) -> None:
    """Keep a value by its name; the oldest one gives way."""
    kept[name] = value
    if len(kept) > TRACED_RUNS_REMEMBERED_MAX:
        kept.popitem(last=False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
