"""A step: one test delivery, sent at once and kept nowhere."""

import asyncio

from dispatcher.sending import signing
from dispatcher.sending.hints import verdict
from dispatcher.sending.request import Sealed, delivery_headers
from meterline.delivery import Answer, AttemptOutcome, SecretBox, WebhookSender
from meterline.meter import Meter
from meterline.ports import Clock
from meterline.report import Report, ReportStore, Trial, trial_body


class Trials:
    """See `trial_ports.ReportTrial`."""

    def __init__(
        self, reports: ReportStore, sender: WebhookSender, box: SecretBox, clock: Clock
    ) -> None:
        self._reports = reports
        self._sender = sender
        self._box = box
        self._clock = clock

    async def try_out(self, report: Report, meter: Meter, delivery_id: str) -> Trial:
        """See the port."""
        await asyncio.to_thread(signing.load)
        now_ms = self._clock.now_ms()
        body = trial_body(report, meter, delivery_id, now_ms)
        try:
            headers = await self._headers(report, delivery_id, body, now_ms)
        except ValueError as error:
            reason = f"not sent: a secret of the report cannot be decrypted ({error})"
            answer = Answer(AttemptOutcome.UNREACHED, 0, reason=reason)
        else:
            answer = await self._sender.send(report.endpoint, body, headers)
        return Trial(delivery_id, body, now_ms, answer, verdict(answer))

    async def _headers(
        self, report: Report, delivery_id: str, body: bytes, now_ms: int
    ) -> dict[str, str]:
        retired = await self._reports.retired_secrets(report.id, now_ms)
        secrets = (report.signing_secret_sealed, *(one.sealed for one in retired))
        sealed = Sealed(secrets, report.user_info_sealed, report.headers.sealed)
        return delivery_headers(delivery_id, body, sealed, self._box, now_ms)
