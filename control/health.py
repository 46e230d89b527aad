"""Is it alive, and is it ready? For probes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from aiohttp import web

from control.in_time import in_time
from control.stores import Stores
from meterline.http import json_response
from meterline.limits import STATUS_PART_TIMEOUT_S
from meterline.ports import Unavailable
from meterline.problem import Fault, Problem, ProblemType

# Raises `Unavailable` where the part does not answer.
Check = Callable[[], Awaitable[object]]
RETRY_S: Final = 1


class Silent(NamedTuple):
    """A part that does not answer, and why. `timed_out`: it did not even say so."""

    part: str
    why: str
    timed_out: bool = False


def checks_of(stores: Stores) -> dict[str, Check]:
    """What this API needs: the cheapest question to each store, whatever it holds."""
    return {
        "control": stores.catalogue.catalogue_version,
        "usage": stores.usage.answers,
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
            detail = "; ".join(f"{it.part}: {it.why}" for it in silent)
            faults = tuple(Fault(it.part, it.why, "unavailable", "store") for it in silent)
            raise Problem(ProblemType.UNAVAILABLE, detail, faults, RETRY_S)
        return json_response({"status": "ready", "parts": list(self._checks)})

    async def silent(self) -> list[Silent]:
        """The parts that do not answer, and why."""
        answers = await asyncio.gather(*(_ask(*it) for it in self._checks.items()))
        return [it for it in answers if it is not None]


async def _ask(part: str, check: Check) -> Silent | None:
    """None where the part answers."""
    try:
        await in_time(check(), STATUS_PART_TIMEOUT_S)
    except TimeoutError:
        why = f"did not respond within {STATUS_PART_TIMEOUT_S} s"
        return Silent(part, why, timed_out=True)
    except Unavailable as error:
        return Silent(part, str(error) or "does not respond")
    return None
