"""Wiring of access: the gate with its limits and, in mode `keys`, with the keys at hand."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from aiohttp.typedefs import Middleware

from meterline.access import Throttle
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.access.sessions import SqlSessionStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.backends.key_ring import KeyRing
from meterline.backends.missing_plans import MissingPlans
from meterline.http.gate import Gate
from meterline.http.origins import Authority, HostRule, host_middleware, parse_authority
from meterline.http.sessions import Sessions, session_middleware
from meterline.ports import Clock
from meterline.runtime.settings.reading import Settings


async def _nothing() -> None:
    """Where there are no keys, none has changed."""


class OpenGate(NamedTuple):
    """A gate, what `/readyz` asks of it by name, and what makes a changed key known at once."""

    gate: Gate
    checks: Mapping[str, Callable[[], Awaitable[object]]]
    catch_up: Callable[[], Awaitable[None]] = _nothing
    sessions: Sessions | None = None  # of the console; None in mode `none`


async def open_gate(
    settings: Settings, database: Database, stack: AsyncExitStack, clock: Clock
) -> OpenGate:
    """What stands before every operation, by the settings.

    With keys they are kept fresh until the stack is closed. It is no error that the control store
    is away: until it answers, the gate refuses everybody as unavailable.
    """
    limits = throttle(settings)
    if settings.access_mode == "none":
        return OpenGate(Gate(clock, None, limits), {})
    ring = KeyRing(
        SqlAccessStore(database),
        clock,
        lambda: check_migrated(database),
        missing_plans=MissingPlans(settings.plans),
    )
    await ring.start()
    stack.push_async_callback(ring.close)
    stop = asyncio.Event()
    keeping = asyncio.create_task(ring.run(stop))

    async def end() -> None:
        stop.set()
        await keeping

    stack.push_async_callback(end)
    gate = Gate(clock, ring.identify, limits)
    rule = HostRule(_allowed(settings), any_host=True)
    sessions = Sessions(SqlSessionStore(database), ring, clock, rule)
    return OpenGate(gate, {"keys": ring.check}, ring.catch_up, sessions)


def throttle(settings: Settings) -> Throttle | None:
    """The buckets of the plans; None where there are no plans."""
    if not settings.plans:
        return None
    plans = {name: plan.policies for name, plan in settings.plans.items()}
    return Throttle(plans, settings.limit_shares)


def host_guard(settings: Settings) -> Sequence[Middleware]:
    """What keeps pages of other origins out in mode `none`; with keys no page can show one."""
    if settings.access_mode != "none":
        return ()
    rule = HostRule(_allowed(settings), any_host=settings.public_without_keys)
    return (host_middleware(rule),)


def session_guard(gate: OpenGate) -> Sequence[Middleware]:
    """What finds the session of a request by cookie, where keys are asked for."""
    return () if gate.sessions is None else (session_middleware(gate.sessions),)


def _allowed(settings: Settings) -> frozenset[Authority]:
    return frozenset(parse_authority(host) for host in settings.allowed_hosts)
