"""A step: one test delivery, sent at once and kept nowhere."""

import asyncio

from dispatcher.sending import signing
from dispatcher.sending.hints import verdict
from dispatcher.sending.request import Sealed, send_signed
from meterline.delivery import SecretBox, WebhookSender
from meterline.meter import Meter
from meterline.ports import Clock
from meterline.report import Report, ReportStore, SentTest, body_of_test


class DeliveryTester:
    """See `meterline.report.ReportTester`."""

    def __init__(
        self, reports: ReportStore, sender: WebhookSender, box: SecretBox, clock: Clock
    ) -> None:
        self._reports = reports
        self._sender = sender
        self._box = box
        self._clock = clock

    async def try_out(self, report: Report, meter: Meter, delivery_id: str) -> SentTest:
        """See the port."""
        await asyncio.to_thread(signing.load)
        now_ms = self._clock.now_ms()
        body = body_of_test(report, meter, delivery_id, now_ms)
        retired = await self._reports.retired_secrets(report.id, now_ms)
        secrets = (report.signing_secret_sealed, *(one.sealed for one in retired))
        sealed = Sealed(secrets, report.user_info_sealed, report.headers.sealed)
        answer = await send_signed(
            self._sender, self._box, report.endpoint, delivery_id, body, sealed, now_ms
        )
        return SentTest(delivery_id, body, now_ms, answer, verdict(answer))
