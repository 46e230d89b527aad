"""Posting batches: a few requests in flight, retries of what passes, a stop at what does not."""

import asyncio
import gzip
import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from dispatcher.sending.retry import retry_after_ms
from meterline.ports import Clock
from meterline.runtime.commands.asking import TOO_MANY, failed_message, hint
from meterline.runtime.commands.send.batches import Batch
from meterline.window import Backoff

REQUEST_TIMEOUT_S: Final = 60  # the server answers within its produce deadline, 10 s by default
RETRY_DELAY_S: Final = 0.25  # before the first retry, at most; doubled with each further one
RETRY_DELAY_MAX_S: Final = 15
RETRY_AFTER_MAX_S: Final = 3_600
GZIP_LEVEL: Final = 1  # a fifth of the size for a tenth of the time
SAFE: Final = "You can send the same input again: duplicates are never counted."


class Refused(Exception):
    """The server will not take a batch, now or later; the text names the line."""


class Unreachable(Exception):
    """A batch was not accepted within the time for retries."""


@dataclass(slots=True)
class Progress:
    """What happened so far."""

    events: int = 0
    requests: int = 0
    retries: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """How to send. `patience_ms` bounds the retries of one batch."""

    url: str
    in_flight: int
    patience_ms: int
    compressed: bool = False


class Sender:
    """Sends batches; `on_progress` is called after each one that was accepted."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        terms: Terms,
        clock: Clock,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._session = session
        self._terms = terms
        self._clock = clock
        self._on_progress = on_progress
        self.progress = Progress()

    async def send(self, source: Iterator[Batch]) -> None:
        """Send all batches. After an error no further one is begun, and those under way are ended.

        Raises `Refused`, `Unreachable`, or what the source raises.
        """
        turn = asyncio.Lock()
        failures: list[Exception] = []

        async def work() -> None:
            while not failures:
                async with turn:
                    # reading may wait for a pipe, and must not stop the requests under way
                    batch = await asyncio.to_thread(next, source, None)
                if batch is None or failures:
                    return
                await self._deliver(batch)

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - kept, and raised below
                failures.append(error)

        await asyncio.gather(*(guarded() for _ in range(self._terms.in_flight)))
        if failures:
            raise failures[0]

    async def _deliver(self, batch: Batch) -> None:
        body, headers = batch.body, {"Content-Type": "application/cloudevents-batch+json"}
        if self._terms.compressed:
            body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
            headers["Content-Encoding"] = "gzip"
        started_ms = self._clock.now_ms()
        backoff = Backoff(RETRY_DELAY_S, RETRY_DELAY_MAX_S)
        while (again := await self._try(batch, body, headers)) is not None:
            waited_ms = self._clock.now_ms() - started_ms
            if waited_ms + again.after_s * 1_000 > self._terms.patience_ms:
                raise Unreachable(
                    f"{self._terms.url}: {again.reason}, for {waited_ms / 1000:.0f} s"
                )
            # never before Retry-After (contract section 8), and not all senders at once after it
            spread_s = backoff.next_s(random.random())  # noqa: S311 - jitter
            await asyncio.sleep(again.after_s + spread_s)
            self.progress.retries += 1
        self.progress.events += len(batch.lines)
        self.progress.requests += 1
        self.progress.read = max(self.progress.read, batch.read)
        self._on_progress(self.progress)

    async def _try(self, batch: Batch, body: bytes, headers: dict[str, str]) -> "Again | None":
        """None when the batch is durable; otherwise when and why to try again. Raises `Refused`."""
        try:
            async with self._session.post(
                self._terms.url,
                data=io.BytesIO(body),
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            ) as response:
                body = await response.read()
                status, after = response.status, response.headers.get("Retry-After")
        except aiohttp.InvalidURL as error:
            raise Refused(f"{self._terms.url} is not a URL") from error
        except TimeoutError:
            return Again(0, f"no answer within {REQUEST_TIMEOUT_S} s")
        except (aiohttp.ClientError, OSError) as error:
            return Again(0, failed_message(error))
        if 200 <= status < 300:  # noqa: PLR2004 - the class of success
            return None
        if status == TOO_MANY or status >= 500:  # noqa: PLR2004 - the class of passing errors
            return Again(retry_after_s(after, self._clock.now_ms()), f"status {status}")
        raise Refused(refusal(batch, status, body))


@dataclass(frozen=True, slots=True)
class Again:
    """A batch is to be sent again, not before `after_s`."""

    after_s: float
    reason: str


def retry_after_s(text: str | None, now_ms: int) -> float:
    """Seconds that a `Retry-After` header asks for: a number or a date (RFC 9110 10.2.3)."""
    return min(RETRY_AFTER_MAX_S, retry_after_ms(text, now_ms) / 1000)


class Fault(msgspec.Struct):
    """An entry of `invalid_parameters`, as far as it is read here."""

    field: str = ""
    reason: str = ""
    index: int | None = None


class ProblemRead(msgspec.Struct):
    """A problem document, as far as it is read here."""

    title: str = ""
    detail: str = ""
    invalid_parameters: list[Fault] = []


_problems: Final = msgspec.json.Decoder(ProblemRead)


def refusal(batch: Batch, status: int, body: bytes) -> str:
    """What the server holds against a batch, in words that name lines of the input."""
    try:
        problem = _problems.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        problem = ProblemRead(detail=body[:200].decode(errors="replace"))
    first, last = batch.lines[0].number, batch.lines[-1].number
    lines = [
        f"line {batch.lines[fault.index].number}: {fault.field}: {fault.reason}"
        for fault in problem.invalid_parameters
        if fault.index is not None and fault.index < len(batch.lines)
    ]
    if not lines:
        text = problem.detail or problem.title
        lines = [f"lines {first} to {last}: {text}{hint(status)}"]
    return f"the server refused a batch with status {status}:\n  " + "\n  ".join(lines)
