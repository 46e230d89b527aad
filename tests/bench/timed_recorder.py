"""A `Recorder` that adds up what telling takes: the cost of metrics within a run that measures."""

import time
from dataclasses import dataclass

from meterline.ports import Metric, Recorder, Tell


@dataclass(slots=True)
class TimedRecorder:
    """Tells `recorder`. `told_ns` is the processor time of that, with what asking for the time
    takes: never too little.
    """

    recorder: Recorder
    told_ns: int = 0
    tells: int = 0

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """See the port."""
        began_ns = time.thread_time_ns()
        self.recorder.count(metric, amount, *labels)
        self._took(began_ns)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """See the port."""
        began_ns = time.thread_time_ns()
        self.recorder.observe(metric, value, *labels)
        self._took(began_ns)

    def counter(self, metric: Metric, *labels: str) -> Tell:
        """See the port."""
        return self._timed(self.recorder.counter(metric, *labels))

    def observer(self, metric: Metric, *labels: str) -> Tell:
        """See the port."""
        return self._timed(self.recorder.observer(metric, *labels))

    def timer(self, counted: Metric, timed: Metric, *labels: str) -> Tell:
        """See the port."""
        return self._timed(self.recorder.timer(counted, timed, *labels))

    def exemplify(self, metric: Metric, value: float, trace_id: str, *labels: str) -> None:
        """See the port."""
        began_ns = time.thread_time_ns()
        self.recorder.exemplify(metric, value, trace_id, *labels)
        self._took(began_ns)

    def set(self, metric: Metric, value: float | None, *labels: str) -> None:
        """See the port."""
        began_ns = time.thread_time_ns()
        self.recorder.set(metric, value, *labels)
        self._took(began_ns)

    def _timed(self, tell: Tell) -> Tell:
        def timed(amount: float) -> None:
            began_ns = time.thread_time_ns()
            tell(amount)
            self._took(began_ns)

        return timed

    def _took(self, began_ns: int) -> None:
        self.told_ns += time.thread_time_ns() - began_ns
        self.tells += 1
