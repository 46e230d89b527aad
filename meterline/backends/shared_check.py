"""`Standing`: one comparison of both stores for all answers that wait for one."""

import asyncio
from collections.abc import Awaitable, Callable

from meterline.limits import CHECK_HELD_S
from meterline.usage import Life, WholeLife


class SharedCheck:
    """See `meterline.usage.Standing`. Who asks while a comparison runs waits for the next one,
    together with all others: it begins after their answers were read.

    A store loses nothing within one life but by hand. So what comes from a life that was found
    whole is good for CHECK_HELD_S, as long as nothing else answers in its place.
    """

    def __init__(
        self, check: Callable[[], Awaitable[Life | None]], held_s: float = CHECK_HELD_S
    ) -> None:
        self._check = check
        self._held_s = held_s
        self._held: WholeLife | None = None
        self._last: asyncio.Task[None] | None = None
        self._due: asyncio.Task[None] | None = None

    @property
    def held(self) -> WholeLife | None:
        """See the port."""
        return self._held if self._is_fresh(self._held) else None

    async def stands(self, held: WholeLife | None) -> None:
        """See the port."""
        if self._is_fresh(held):
            return
        if self._due is None:
            self._due = asyncio.create_task(self._compared(self._last))
        await asyncio.shield(self._due)

    def _is_fresh(self, held: WholeLife | None) -> bool:
        """A life that is not older than this might have begun since."""
        if held is None or held.life.up_s <= self._held_s:
            return False
        return asyncio.get_running_loop().time() - held.begun_s <= self._held_s

    async def _compared(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._last, self._due = self._due, None
        begun_s = asyncio.get_running_loop().time()
        self._held = None
        life = await self._check()
        self._held = None if life is None else WholeLife(life, begun_s)
