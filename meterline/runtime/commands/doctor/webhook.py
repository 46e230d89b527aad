"""Whether a webhook gets out of this machine: name servers, network, proxy, certificates."""

from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import urlsplit

from dispatcher.sending.hints import verdict
from meterline.delivery import Answer
from meterline.runtime.commands.doctor.finding import Finding, Level
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.reports import webhook_sender

WEBHOOKS: Final = "webhooks"
# No receiver books it: it is no report, and has no signature.
_BODY: Final = b'{"type":"meterline.doctor"}'
_HEADERS: Final = {"Content-Type": "application/json"}


async def look_at_webhook(settings: Settings, url: str) -> Finding:
    """Post to a receiver as deliveries are posted, by the same settings."""
    async with AsyncExitStack() as stack:
        answer = await webhook_sender(settings, stack).send(url, _BODY, _HEADERS)
    return of_answer(urlsplit(url).hostname or url, answer)


def of_answer(host: str, answer: Answer) -> Finding:
    """Any answer of the receiver proves the way to it: it need not take what is no delivery."""
    if answer.status is None or not answer.of_receiver:
        return Finding(WEBHOOKS, Level.FAULT, f"{host}: {verdict(answer)}")
    text = f"{host} was reached: it answered {answer.status} after {answer.duration_ms} ms"
    return Finding(WEBHOOKS, Level.OK, text)
