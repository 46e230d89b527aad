"""Addresses of host names: the system's own answers, asked for in threads of their own.

The system's lookup blocks, and nothing ends it: a name whose servers are silent holds its thread
for half a minute or longer, whatever deadline the asker had. In the threads that a process shares,
a few such names would hold up every other name and all other work there.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from meterline import limits

Found = list[ResolveResult] | Exception
Lookup = Callable[[str, int], list[ResolveResult]]
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class NameNotResolved(OSError):
    """A name whose addresses are not known in time. `words` follow the subject, such as "the host
    name"; `of_name`: whether that says something of the name.
    """

    def __init__(self, message: str, *, of_name: bool) -> None:
        super().__init__(message)
        self.message = message
        self.of_name = of_name


def looked_up(host: str, family: int) -> list[ResolveResult]:
    """The addresses that the system has for a name, without ports; blocks for as long as it takes.

    Raises `OSError` for a name without any, `ValueError` for what cannot be one.
    """
    infos = socket.getaddrinfo(
        host, 0, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [
        ResolveResult(
            hostname=host,
            host=_address(address),
            port=0,
            family=found,
            proto=protocol,
            flags=_NUMERIC,
        )
        for found, _, protocol, _, address in infos
        if isinstance(address[0], str)  # not so for IPv6 in a Python that was built without it
    ]


def _address(address: tuple[Any, ...]) -> str:
    """An address as text; with its scope where it has one, for it is good for nothing without."""
    if len(address) > len(("host", "port", "flow")) and address[3]:
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return str(address[0])


@dataclass(frozen=True, slots=True)
class _Going:
    """A lookup that is going on: until when it is waited for, and what it will have found."""

    until_s: float
    found: asyncio.Future[Found]


class Names(AbstractResolver):
    """Resolves names for one loop. Each name is looked up once at a time, however many ask, and is
    waited for until a deadline; one that goes on longer still holds its thread, so whoever asks for
    it meanwhile is told at once. Raises `NameNotResolved` besides what the lookup raises.
    """

    def __init__(
        self,
        lookup: Lookup = looked_up,
        deadline_s: float = limits.NAME_LOOKUP_S,
        lookups_max: int = limits.NAME_LOOKUPS_MAX,
    ) -> None:
        self._lookup = lookup
        self._deadline_s = deadline_s
        self._lookups_max = lookups_max
        self._going: dict[tuple[str, int], _Going] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See `AbstractResolver`."""
        loop = asyncio.get_running_loop()
        going = self._going.get((host, family)) or self._begun(loop, host, family)
        # not `wait_for`: whoever gives up must not cancel what others wait for
        await asyncio.wait((going.found,), timeout=max(0.0, going.until_s - loop.time()))
        if not going.found.done():
            raise NameNotResolved(f"was not resolved within {self._deadline_s:g} s", of_name=True)
        found = going.found.result()
        if isinstance(found, Exception):
            raise found
        return [{**one, "port": port} for one in found]

    async def close(self) -> None:
        """Nothing to let go of: lookups end by themselves, and nobody waits for them."""

    def _begun(self, loop: asyncio.AbstractEventLoop, host: str, family: int) -> _Going:
        if len(self._going) >= self._lookups_max:
            raise _crowded()
        going = _Going(loop.time() + self._deadline_s, loop.create_future())

        def end(found: Found) -> None:
            del self._going[host, family]
            going.found.set_result(found)

        def work() -> None:
            try:
                found: Found = self._lookup(host, family)
            except Exception as error:  # noqa: BLE001 - raised to whoever waits
                found = error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(end, found)

        # A daemon, unlike the threads of an executor: the process may end while it looks up.
        thread = threading.Thread(target=work, name="name-lookup", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads
            raise _crowded() from error
        self._going[host, family] = going
        return going


def _crowded() -> NameNotResolved:
    return NameNotResolved(
        "was not looked up: too many names that do not resolve are waited for", of_name=False
    )
