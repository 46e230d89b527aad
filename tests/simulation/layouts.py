"""How the simulated log is laid out, as a control store knows it."""

from collections.abc import Callable, Mapping

from meterline.event import Layout
from meterline.problem import Problem, ProblemType
from tests.simulation.network import Net


class LayoutState:
    """Logs, their growths and the marks that were passed; and what grows with them: claims, and
    ends of what is counted, by log, catalogue and partition.
    """

    def __init__(self) -> None:
        self.logs: dict[str, tuple[int, int]] = {}
        self.claims: dict[tuple[int, int, int], int] = {}
        self.ends: dict[tuple[int, int, int], int] = {}
        self.layouts: dict[int, Layout] = {}
        self.marks_passed: dict[int, dict[tuple[int, int], int]] = {}
        self.grows = False
        self.laid_out: Callable[[Layout], None] = lambda _: None  # told of a growth

    def layout(self, log: int) -> Layout:
        made = {number: Layout(partitions) for number, partitions in self.logs.values()}
        return self.layouts.get(log) or made.get(log) or Layout(0)

    def begin_growth(self, log: int, wanted: Layout) -> None:
        there, growth = self.layout(log), wanted.growths[-1]
        if there.growths and there.partitions == wanted.partitions:
            return
        if there != Layout(growth.before, wanted.growths[:-1]):
            raise Problem(ProblemType.CONFLICT, "another growth is recorded")
        if there.uncounted(self.marks_passed.get(log, {})):
            raise Problem(ProblemType.CONFLICT, "a growth has not ended yet")
        self._check_offsets(log, growth.first)
        self.layouts[log] = wanted
        for name, (number, _) in self.logs.items():
            if number == log:
                self.logs[name] = number, wanted.partitions
        for heir in range(growth.before, growth.partitions):
            for table, first in ((self.claims, None), (self.ends, growth.first)):
                for (of_log, catalogue, partition), value in list(table.items()):
                    if of_log == log and partition == heir % growth.before:
                        table[log, catalogue, heir] = value if first is None else first
        self.laid_out(wanted)

    def _check_offsets(self, log: int, first: int) -> None:
        if first <= max((it for (of, *_), it in self.ends.items() if of == log), default=0):
            raise Problem(ProblemType.CONFLICT, "new offsets are not greater")

    def pass_mark(self, log: int, partition: int, partitions: int, offset: int) -> None:
        self.marks_passed.setdefault(log, {}).setdefault((partition, partitions), offset)


class SimulatedLayouts:
    """The part of `ProgressStore` that knows of layouts, as one process reaches it."""

    def __init__(self, state: LayoutState, net: Net) -> None:
        self._layouts = state
        self._net = net

    async def layout(self, log: int) -> Layout:
        if not self._layouts.grows:  # nothing that could fail, so that seeds mean what they did
            return self._layouts.layout(log)
        return await self._net.call("progress.layout", lambda: self._layouts.layout(log))

    async def begin_growth(self, log: int, layout: Layout, now_ms: int) -> None:
        del now_ms
        await self._net.call(
            f"progress.begin_growth {layout}",
            lambda: self._layouts.begin_growth(log, layout),
            writes=True,
        )

    async def pass_mark(self, log: int, partition: int, partitions: int, offset: int) -> None:
        await self._net.call(
            f"progress.pass_mark {partition}/{offset}",
            lambda: self._layouts.pass_mark(log, partition, partitions, offset),
            writes=True,
        )

    async def marks(self, log: int) -> Mapping[tuple[int, int], int]:
        if not self._layouts.grows:
            return dict(self._layouts.marks_passed.get(log, {}))
        return await self._net.call(
            "progress.marks", lambda: dict(self._layouts.marks_passed.get(log, {}))
        )
