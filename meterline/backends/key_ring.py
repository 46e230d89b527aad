"""The keys at hand: who a caller is, answered without asking anybody (docs/architecture.md,
"Keys").

One process holds all keys, as hashes, and asks the store every second whether any has changed. So
ingest goes on while the control store is away, and a revoked key is refused soon after it is back
or, if it never was away, within two seconds or so; one slow answer of the store is given up early
enough that it still is within five.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from meterline.access import (
    AccessStore,
    ApiKey,
    Principal,
    SessionToken,
    Token,
    Verdict,
    bearer_text,
    parse_token,
    session_verdict,
    verdict,
)
from meterline.backends.missing_plans import MissingPlans
from meterline.limits import (
    KEY_REVOKED_SHOWN_MS,
    KEYS_POLL_S,
    KEYS_READ_ROWS,
    KEYS_READ_TIMEOUT_S,
    LAST_USED_WRITE_S,
)
from meterline.ports import Clock, Unavailable, Unsuitable
from meterline.problem import Problem, ProblemType

RETRY_S: Final = 1
_START: Final = (0, "")  # before the place of every key
_NO_KEY: Final = "Send an API key: `Authorization: Bearer mtl_...`."
_NOT_GOOD: Final = "The API key is not known."  # also a wrong secret: nothing that helps to guess
_MESSAGES: Final = {
    Verdict.EXPIRED: "The API key has expired; ask for another one.",
    Verdict.REVOKED: "The API key is revoked; ask for another one.",
    Verdict.REPLACED: "This secret of the API key was replaced, and its time is over.",
}

logger = structlog.get_logger("meterline.keys")


class KeyRing:
    """All keys of an installation, as fresh as `confirmed_at_ms` says.

    `run` keeps them so; until they were read once, everybody is refused as unavailable. `prepare`
    is done first, until it succeeds: it raises what is wrong with the store, in words.
    `missing_plans` tells of keys whose plan the settings do not have.
    """

    def __init__(
        self,
        store: AccessStore,
        clock: Clock,
        prepare: Callable[[], Awaitable[None]] | None = None,
        *,
        missing_plans: MissingPlans | None = None,
        poll_s: float = KEYS_POLL_S,
        read_timeout_s: float = KEYS_READ_TIMEOUT_S,
        last_used_write_s: float = LAST_USED_WRITE_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._prepare = prepare
        self._missing_plans = missing_plans
        self._poll_s = poll_s
        self._read_timeout_s = read_timeout_s
        self._last_used_write_s = last_used_write_s
        self._held: dict[str, tuple[ApiKey, Principal]] = {}
        self._version = -1
        self._place = _START
        self._away = False
        self._reason = "they are being read"
        self._used_at_ms: dict[str, int] = {}
        self.confirmed_at_ms: int | None = None
        """Every change that was made before this instant is known. None: nothing is."""

    def identify(self, authorization: str | None, now_ms: int) -> Principal:
        """Who sends this `Authorization` header. Raises `Problem`: unauthenticated, or unavailable
        where no key is known yet.
        """
        self._check_known()
        shown = bearer_text(authorization) if authorization else None
        if shown is None:
            raise Problem(ProblemType.UNAUTHENTICATED, _NO_KEY)
        token = parse_token(shown)
        if token is None:
            raise Problem(ProblemType.UNAUTHENTICATED, _NOT_GOOD)
        return self.principal(token, now_ms)

    def principal(self, token: Token, now_ms: int) -> Principal:
        """Whose token this is. Raises `Problem` (unauthenticated)."""
        key, principal = self._held.get(token.key_id, (None, None))
        self._judged(key, verdict(key, token, now_ms), now_ms)
        assert principal is not None, "it is held beside its key"
        return principal

    def key_of(self, token: Token | SessionToken, now_ms: int) -> ApiKey:
        """The key that a token, or the token of a session, was made with. Raises `Problem`:
        unauthenticated, or unavailable where no key is known yet.
        """
        self._check_known()
        key, _ = self._held.get(token.key_id, (None, None))
        if isinstance(token, Token):
            return self._judged(key, verdict(key, token, now_ms), now_ms)
        return self._judged(key, session_verdict(key, token, now_ms), now_ms)

    def _judged(self, key: ApiKey | None, found: Verdict, now_ms: int) -> ApiKey:
        if key is None or not found.passes:
            raise Problem(ProblemType.UNAUTHENTICATED, _MESSAGES.get(found, _NOT_GOOD))
        if self._missing_plans is not None:
            self._missing_plans.tell_used(key)
        self._used_at_ms[key.id] = now_ms
        return key

    def _check_known(self) -> None:
        if self.confirmed_at_ms is None:
            detail = "API keys cannot be checked yet; `/readyz` says why."
            raise Problem(ProblemType.UNAVAILABLE, detail, retry_after_s=RETRY_S)

    async def start(self) -> None:
        """Read all keys, if the store answers; if not, `run` goes on trying."""
        await self._refresh_patiently()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the keys fresh and write when they were used, until `stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll(stop))
            group.create_task(self._write(stop))

    async def close(self) -> None:
        """Write what is known of last use. What cannot be written is lost: it is a help, no
        account.
        """
        await self._write_last_used()

    async def check(self) -> None:
        """For `/readyz`: raises `Unavailable` until the keys were read once.

        A ring that goes on without its store is ready: it answers.
        """
        if self.confirmed_at_ms is None:
            raise Unavailable(f"API keys were not read yet: {self._reason}")

    async def catch_up(self) -> None:
        """Read what has just been changed in this process, so that a new key is good when its maker
        sees it. Where the store does not answer, the next poll reads it.
        """
        await self._refresh_patiently()

    async def refresh(self) -> None:
        """Take in what has changed. Raises `Unavailable`, also where an answer takes too long, and
        what `prepare` raises.
        """
        begun_ms = self._clock.now_ms()
        try:
            if self._prepare is not None:
                async with asyncio.timeout(self._read_timeout_s):
                    await self._prepare()
                self._prepare = None
            async with asyncio.timeout(self._read_timeout_s):
                version = await self._store.keys_version()
            if version < self._version:  # the store was put back to an earlier state
                self._place = _START
            if version != self._version:
                await self._take_in(begun_ms)
        except TimeoutError as error:
            message = f"control store: no answer about API keys within {self._read_timeout_s} s"
            raise Unavailable(message) from error
        self._version = version
        self.confirmed_at_ms = begun_ms
        if self._missing_plans is not None:
            self._missing_plans.tell_held((key for key, _ in self._held.values()), begun_ms)

    async def _take_in(self, now_ms: int) -> None:
        place = self._place
        held = {} if place == _START else self._held
        while True:
            async with asyncio.timeout(self._read_timeout_s):
                page = await self._store.keys_changed(place, KEYS_READ_ROWS)
            for _, key in page:
                if _is_shown(key, now_ms):
                    held[key.id] = (key, key.principal)
                else:
                    held.pop(key.id, None)
            if page:
                place = page[-1][0]
            if len(page) < KEYS_READ_ROWS:
                break
        self._held, self._place = held, place

    async def _poll(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if await self._refresh_patiently():
                await _pause(stop, self._poll_s)
            else:
                await _pause(stop, self._poll_s / 4)  # it may have been one slow answer

    async def _refresh_patiently(self) -> bool:
        """Did it go well? The log is told when that changes."""
        try:
            await self.refresh()
        except (Unavailable, Unsuitable) as error:
            self._tell_stale(str(error))
            return False
        except Exception:
            # A fault of ours that ended the polls would let revoked keys in for ever.
            if not self._away:
                logger.exception("keys", action="failed")
            self._tell_stale("a fault of Meterline's, which the log tells")
            return False
        if self._away:
            logger.info("keys", action="fresh", keys=len(self._held))
        self._away = False
        return True

    def _tell_stale(self, reason: str) -> None:
        if not self._away:
            known = len(self._held) if self.confirmed_at_ms is not None else None
            logger.warning("keys", action="stale", reason=reason, going_on_with=known)
        self._away = True
        self._reason = reason

    async def _write(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await _pause(stop, self._last_used_write_s)
            await self._write_last_used()

    async def _write_last_used(self) -> None:
        used, self._used_at_ms = self._used_at_ms, {}
        try:
            async with asyncio.timeout(self._last_used_write_s / 2):
                await self._store.note_used(used)
        except (Unavailable, TimeoutError) as error:
            logger.debug("keys", action="last use kept for later", reason=str(error))
            self._used_at_ms = {**used, **self._used_at_ms}  # the newer ones win
        except Exception:
            # As above: it would end the polls, too.
            logger.exception("keys", action="last use lost")


def _is_shown(key: ApiKey, now_ms: int) -> bool:
    """Is it worth holding? Keys revoked long ago need no words of their own."""
    return key.revoked_at_ms is None or now_ms - key.revoked_at_ms < KEY_REVOKED_SHOWN_MS


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
