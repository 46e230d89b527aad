"""An audit waits while a subject is being erased: what it compares is on its way."""

import asyncio
from typing import Final

from meterline.audit import Auditor, AuditSpan, AuditStep
from meterline.ports import Unavailable
from meterline.usage import ErasureLedger, ErasureState

_LOOKS: Final = 20
_LOOK_S: Final = 0.5
_ON_THEIR_WAY: Final = (ErasureState.COPYING, ErasureState.SWITCHED)


class CalmAuditor:
    """See `meterline.audit.Auditor`. Raises `Unavailable` while rows are being rewritten."""

    def __init__(self, auditor: Auditor, ledger: ErasureLedger) -> None:
        self._auditor = auditor
        self._ledger = ledger

    async def step(self, span: AuditSpan, cursor: str | None) -> AuditStep:
        """See the port."""
        before = await self._states()
        step = await self._auditor.step(span, cursor)
        if await self._states() != before:
            raise Unavailable("a subject was erased meanwhile: ask again")
        return step

    async def _states(self) -> list[tuple[str, ErasureState]]:
        """Those of all erasures. It is soon over, so it is waited for a little."""
        for _ in range(_LOOKS):
            found = [(one.id, one.state) for one in await self._ledger.unfinished()]
            if all(state not in _ON_THEIR_WAY for _, state in found):
                return found
            await asyncio.sleep(_LOOK_S)
        raise Unavailable("a subject is being erased: ask again in a minute")
