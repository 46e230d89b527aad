"""Fetching a report's deliveries from a server, each verified as a receiver verifies a push."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from meterline.delivery import digest_of
from meterline.number import from_text
from meterline.runtime.commands.asking import RETRY_DELAY_S, V3, AskingFailed, ask
from meterline.runtime.commands.reconciliation import Elsewhere, SentDelivery
from meterline.window import parse_instant

PAGE_SIZE: Final = 100
TIMEOUT_S: Final = 60
NOT_FOUND: Final = 404
_T = TypeVar("_T")


class _Entry(msgspec.Struct, rename={"value_text": "valueText"}):
    value_text: str


class _Body(msgspec.Struct):
    usage: list[_Entry]


class _Report(msgspec.Struct):
    id: str
    slug: str


class _Delivery(msgspec.Struct, rename={"from_": "from"}):
    id: str
    report: _Report
    from_: str
    to: str
    subject: str
    revision: int
    state: str
    attempt_count: int
    digest: str
    superseded_by: str | None = None
    reason: str = ""
    failure: str | None = None
    body: str | None = None
    headers: dict[str, str] | None = None


class _Page(msgspec.Struct):
    next: str | None


class _Meta(msgspec.Struct):
    page: _Page


class _Pulled(msgspec.Struct):
    data: list[_Delivery]
    meta: _Meta


_bodies: Final = msgspec.json.Decoder(_Body)
_reports: Final = msgspec.json.Decoder(_Report)
_deliveries: Final = msgspec.json.Decoder(_Delivery)
_pages: Final = msgspec.json.Decoder(_Pulled)


class Puller:
    """A report of a server, and the secret that its deliveries must be signed with (none: any)."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        report: str,
        secret: str | None,
        retry_delay_s: float = RETRY_DELAY_S,
    ) -> None:
        self._session = session
        self._server = server
        self._report = report
        self._secret = secret
        self._retry_delay_s = retry_delay_s

    async def names(self) -> frozenset[str]:
        """What bookings may call the report. Raises `AskingFailed`."""
        found = await self._asked(f"/reports/{quote(self._report, safe='')}", {})
        report = _decoded(found, _reports)
        return frozenset({report.id, report.slug})

    async def pages(self, window: dict[str, str]) -> AsyncIterator[Sequence[SentDelivery]]:
        """Its deliveries, page by page. Raises `AskingFailed`."""
        asked = {**window, "page[size]": str(PAGE_SIZE)}
        path = f"/reports/{quote(self._report, safe='')}/pull"
        while True:
            page = _decoded(await self._asked(path, asked), _pages)
            # in a thread: the library takes a while to import
            yield await asyncio.to_thread(
                lambda these: [self._sent(one) for one in these], page.data
            )
            if page.meta.page.next is None:
                return
            asked["page[after]"] = page.meta.page.next

    async def elsewhere(self, delivery_id: str) -> Elsewhere | None:
        """Where a delivery belongs; None where there is none. Raises `AskingFailed`."""
        try:
            found = await self._asked(f"/deliveries/{quote(delivery_id, safe='')}", {})
        except AskingFailed as error:
            if error.status == NOT_FOUND:
                return None
            raise
        one = _decoded(found, _deliveries)
        return Elsewhere(one.report.slug, parse_instant(one.from_), parse_instant(one.to))

    def _sent(self, one: _Delivery) -> SentDelivery:
        value, digests = None, frozenset({one.digest})
        if one.body is not None:
            body = one.body.encode()
            self._verify(one, body)
            value = sum(from_text(it.value_text) for it in _decoded(body, _bodies).usage)
            digests |= {hashlib.sha256(body).hexdigest()}
        return SentDelivery(
            delivery_id=one.id,
            subject=one.subject,
            from_ms=parse_instant(one.from_),
            to_ms=parse_instant(one.to),
            revision=one.revision,
            state=one.state,
            attempts=one.attempt_count,
            value=value,
            digests=digests,
            superseded_by=one.superseded_by,
            reason=one.reason,
            failure=one.failure,
        )

    def _verify(self, one: _Delivery, body: bytes) -> None:
        if digest_of(body).hex() != one.digest:
            raise AskingFailed(f"{one.id}: its body does not match its digest")
        if self._secret is None:
            return
        from svix.webhooks import Webhook  # noqa: PLC0415 - 0.3 s that every command would pay

        try:
            Webhook(self._secret).verify(body, one.headers or {})
        except Exception as error:
            message = "check that --secret is of this report, and the clock of this machine"
            raise AskingFailed(
                f"{one.id}: its signature is invalid ({error}): {message}"
            ) from error
        if one.headers is None or one.headers.get("svix-id") != one.id:
            raise AskingFailed(f"{one.id}: its signature belongs to another delivery")

    async def _asked(self, path: str, parameters: dict[str, str]) -> bytes:
        url = f"{self._server}{V3}{path}"
        return await ask(
            self._session, "GET", url, TIMEOUT_S, self._retry_delay_s, params=parameters
        )


def _decoded(body: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise AskingFailed(f"the server did not answer as Meterline does: {error}") from error
