"""A receiver of deliveries for the benchmarks, a process of its own.

It answers 200 at once, but for paths under /hang, which it never answers. `GET /firsts` tells when
the first POST to each path came, as seconds of the wall clock. It prints its port, and ends with
its input.
"""

import asyncio
import sys
import time

from aiohttp import web


async def main() -> None:
    """Serve until standard input is closed."""
    firsts: dict[str, float] = {}

    async def receive(request: web.Request) -> web.Response:
        firsts.setdefault(request.path, time.time())
        await request.read()
        if request.path.startswith("/hang"):
            await asyncio.sleep(600)
        return web.Response()

    async def tell(_request: web.Request) -> web.Response:
        return web.json_response(firsts)

    application = web.Application()
    application.router.add_post("/{path:.*}", receive)
    application.router.add_get("/firsts", tell)
    # 0 would mean for ever, which is how long those that hang would be waited for
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
