"""Questions that are asked all the time, whatever happens: an answer is right at any moment, or
there is none.
"""

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from http.client import HTTPException
from typing import Any, Final

from tests.beside import beside
from tests.faults.oracle import Oracle, compared
from tests.journey.client import Server

PAUSE_S: Final = 0.1
WRONG_MAX: Final = 5
NONE_FOR_THE_MOMENT: Final = frozenset({429, 503, 504})
SETTLED: Final = {
    "from": "2026-01-04T00:00:00Z",
    "to": "2026-01-05T00:00:00Z",
    "granularity": "PT1H",
    "group_by_dimensions": ["subject", "region"],
}
WHOLE: Final = {"from": "2026-01-04T00:00:00Z", "to": "2026-01-06T00:00:00Z"}


@dataclass(slots=True)
class Asker:
    """Asks what is known: a history that stands still, to the letter; the total of subjects that
    are erased, which stays; and the events of a meter that goes on counting, which never become
    fewer.
    """

    api: Server
    oracle: Oracle
    pause_s: float = PAUSE_S
    answered: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    due: Fraction | None = None  # of subjects that are erased, while it stands still
    _counted: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def asking(self) -> AbstractContextManager[None]:
        """A thread that asks during the block."""
        return beside("asker", self._ask_on, self._ended.set)

    def _ask_on(self) -> None:
        while not self._ended.is_set():
            for ask in (self._settled, self._erased, self._calls):
                ask()
            time.sleep(self.pause_s)

    def _settled(self) -> None:
        rows = self._asked("settled", SETTLED)
        if rows is not None:
            self._note(compared("settled", self.oracle.cells("settled"), rows))

    def _erased(self) -> None:
        due = self.due
        rows = self._asked("erased", WHOLE)
        if rows is None or due is None or due != self.due:
            return
        found = sum((Fraction(row["value"]) for row in rows), Fraction(0))
        if found != due:
            self._note([f"the total of erased subjects is {found}, not {due}"])

    def _calls(self) -> None:
        rows = self._asked("calls", WHOLE)
        if rows is None:
            return
        counted = sum(row["counted"] for row in rows)
        if counted < self._counted:
            self._note([f"{counted} calls, and there were {self._counted} before"])
        self._counted = max(counted, self._counted)

    def _asked(self, meter: str, body: object) -> Any:
        """The rows of an answer; None: there is none for the moment."""
        path = f"/api/v3/metering/meters/{meter}/query"
        try:
            answer = self.api.ask("POST", path, body)
        except (OSError, HTTPException):
            self.refused += 1
            return None
        if answer.status in NONE_FOR_THE_MOMENT:
            self.refused += 1
            return None
        if answer.status != 200:
            self._note([f"{meter}: {answer.status} {answer.body[:200]!r}"])
            return None
        self.answered += 1
        return answer.json["data"]

    def _note(self, words: list[str]) -> None:
        told = [f"asked meanwhile: {one}" for one in words]
        self.wrong += told[: max(0, WRONG_MAX - len(self.wrong))]
