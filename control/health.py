"""Is it alive, and is it ready? For probes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from control.stores import Stores
from meterline.http import json_response
from meterline.limits import STATUS_PART_TIMEOUT_S
from meterline.ports import Unavailable
from meterline.problem import Fault, Problem, ProblemType

# Raises `Unavailable` where the part does not answer.
Check = Callable[[], Awaitable[object]]
RETRY_S: Final = 1


def checks_of(stores: Stores) -> dict[str, Check]:
    """What this API needs: the cheapest question to each store."""
    return {
        "control": stores.catalogue.catalogue_version,
        "usage": lambda: stores.usage.accounts(stores.log.number),
        "log": lambda: stores.log.end(0),
    }


class Health:
    """Handlers for probes."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [web.get("/healthz", self.alive), web.get("/readyz", self.ready)]

    async def alive(self, _request: web.Request) -> web.Response:
        """200 while the process serves at all."""
        return json_response({"status": "alive"})

    async def ready(self, _request: web.Request) -> web.Response:
        """200 when every part answers, else 503 that names those that do not."""
        silent = await self.silent()
        if silent:
            detail = "; ".join(f"{name}: {why}" for name, why in silent)
            faults = tuple(Fault(name, why, "unavailable", "store") for name, why in silent)
            raise Problem(ProblemType.UNAVAILABLE, detail, faults, RETRY_S)
        return json_response({"status": "ready", "parts": list(self._checks)})

    async def silent(self) -> list[tuple[str, str]]:
        """The parts that do not answer, and why."""
        names = list(self._checks)
        answers = await asyncio.gather(*(_ask(self._checks[name]) for name in names))
        return [(name, why) for name, why in zip(names, answers, strict=True) if why]


async def _ask(check: Check) -> str:
    """Why the part does not answer; "" where it does."""
    try:
        async with asyncio.timeout(STATUS_PART_TIMEOUT_S):
            await check()
    except TimeoutError:
        return f"did not respond within {STATUS_PART_TIMEOUT_S} s"
    except Unavailable as error:
        return str(error) or "does not respond"
    return ""
