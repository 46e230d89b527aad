"""An audit waits while a subject is being erased: what it compares is on its way."""

from meterline.audit import Auditor, AuditSpan, AuditStep
from meterline.ports import Unavailable
from meterline.usage import ErasureLedger, ErasureState

_ON_THEIR_WAY = (ErasureState.COPYING, ErasureState.SWITCHED)


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
        found = [(one.id, one.state) for one in await self._ledger.unfinished()]
        if any(state in _ON_THEIR_WAY for _, state in found):
            raise Unavailable("a subject is being erased: ask again in a minute")
        return found
