"""Events that are sent anew on behalf of a person: through the same admission and the same
publisher as those that are posted.
"""

from collections.abc import Sequence

from aiohttp import web

from ingest.admission import AdmissionRules, BodyForm, admit
from ingest.publisher import Publisher
from meterline.access import Principal
from meterline.event import Event, decode_event
from meterline.http.gate import Gate
from meterline.ports import Clock


class Redriving:
    """A door for events that are at hand already; `control.refusals.service.Door`."""

    def __init__(
        self, publisher: Publisher, rules: AdmissionRules, clock: Clock, gate: Gate
    ) -> None:
        self._publisher = publisher
        self._rules = rules
        self._clock = clock
        self._gate = gate

    def judge(self, namespace: str, text: bytes) -> Event:
        """The event that a text would be. Raises `Problem` (invalid-event) with every fault."""
        now_ms = self._clock.now_ms()
        ((_, spliced),) = admit(text, BodyForm.ONE, namespace, now_ms, self._rules)
        return decode_event(spliced)

    def take(self, request: web.Request, principal: Principal, count: int) -> None:
        """Count events against the caller's plan. Raises `Problem` (rate-limited)."""
        self._gate.take_events(request, principal, count)

    async def let_in(self, namespace: str, texts: Sequence[bytes]) -> None:
        """Return once all are durable. Raises `Problem`: invalid-event, then none is in; or
        unavailable, then it is not known, and sending them again is safe.
        """
        now_ms = self._clock.now_ms()
        admitted = [
            one
            for text in texts
            for one in admit(text, BodyForm.ONE, namespace, now_ms, self._rules)
        ]
        await self._publisher.publish(admitted, now_ms)
