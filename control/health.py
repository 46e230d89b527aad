"""Is it alive, is it ready, and what is this? For probes, and for people who open the address."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
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
PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Meterline</title>
<h1>Meterline {version}</h1>
<p>Send usage events, define meters, query usage, and get usage reports as webhooks.</p>
<ul>
<li><code>POST /api/v3/metering/events</code> accepts events
<li><a href="/api/v3/metering/events">/api/v3/metering/events</a>: events with their verdicts
<li><a href="/api/v3/metering/meters">/api/v3/metering/meters</a>: the meters; POST creates one
<li><code>POST /api/v3/metering/meters/{{idOrKey}}/query</code> queries usage
<li><a href="/api/v3/metering/status">/api/v3/metering/status</a>: the progress of counting
<li><a href="/api/v1/reports">/api/v1/reports</a>: scheduled reports; POST creates one
<li><a href="/readyz">/readyz</a>: whether all stores respond
</ul>
</html>
"""


def checks_of(stores: Stores) -> dict[str, Check]:
    """What this API needs: the cheapest question to each store."""
    return {
        "control": stores.catalogue.catalogue_version,
        "usage": lambda: stores.usage.accounts(stores.log.number),
        "log": lambda: stores.log.end(0),
    }


class Health:
    """Handlers for probes, and the front page."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    def routes(self) -> list[web.RouteDef]:
        """Where they are mounted."""
        return [
            web.get("/healthz", self.alive),
            web.get("/readyz", self.ready),
            web.get("/", self.page),
        ]

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

    async def page(self, _request: web.Request) -> web.Response:
        """The front page."""
        return web.Response(
            text=PAGE.format(version=version("meterline")),
            content_type="text/html",
            headers={"Content-Security-Policy": "default-src 'none'"},
        )


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
