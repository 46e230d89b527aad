"""A receiver that answers 500 for some customers, a process of its own.

A POST to /SHARE/ORDER/MS/WHO is answered after so many milliseconds, with 500 where the customer is
a sick one. `GET /told` says of each path when the first POST came, how long after it the last 2xx
was answered, in seconds, and how many were taken and came. It prints its port, and ends with its
input.
"""

import asyncio
import json
import sys
import time
from functools import cache
from typing import Any, Final

from aiohttp import web

from tests.unit.dispatcher.sending.sick_orders import sick_ones

SUBJECTS: Final = 1_000
SUBJECT: Final = "customer %05d"


class Told:
    """What came to one path."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.first_s = time.monotonic()
        self.last_taken_s = self.first_s
        self.taken: set[int] = set()
        self.came = 0

    def document(self) -> dict[str, float]:
        """As it is answered."""
        took_s = self.last_taken_s - self.first_s
        return {
            "first_s": self.first_s,
            "took_s": took_s,
            "taken": len(self.taken),
            "came": self.came,
        }


@cache
def _sick(share: str, order: str) -> frozenset[int]:
    return sick_ones(float(share), order, SUBJECTS)


async def main() -> None:
    """Serve until standard input is closed."""
    told: dict[str, Told] = {}

    async def receive(request: web.Request) -> web.Response:
        of_path = told.setdefault(request.path, Told())
        body: Any = json.loads(await request.read())
        number = int(body["query"]["subject"].split()[1])
        of_path.came += 1
        share, order, took_ms = request.path.split("/")[1:4]
        await asyncio.sleep(int(took_ms) / 1_000)
        if number in _sick(share, order):
            return web.Response(status=500)
        of_path.taken.add(number)
        of_path.last_taken_s = time.monotonic()
        return web.Response()

    async def tell(_request: web.Request) -> web.Response:
        return web.json_response({path: it.document() for path, it in told.items()})

    application = web.Application()
    application.router.add_post("/{path:.*}", receive)
    application.router.add_get("/told", tell)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1_024)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
