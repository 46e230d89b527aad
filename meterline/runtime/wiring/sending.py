"""How deliveries are sent, from the settings."""

import ssl

from dispatcher.sending.attempt import SendTerms
from dispatcher.sending.retry import RetryPolicy
from meterline.backends.webhook.sender import Egress, tls_with
from meterline.runtime.settings.reading import Settings, SettingsError


def send_terms(settings: Settings) -> SendTerms:
    """What bounds sending."""
    retry = RetryPolicy(
        settings.retry_delays_s, settings.retry_every_s, patience_s=settings.retry_patience_s
    )
    return SendTerms(
        retry, per_second=settings.endpoint_per_second, probe_pause_s=settings.probe_pause_s
    )


def egress(settings: Settings) -> Egress:
    """How deliveries leave. Raises `SettingsError` for a file that holds no certificates."""
    tls: ssl.SSLContext | None = None
    if settings.webhook_ca_file is not None:
        try:
            tls = tls_with(settings.webhook_ca_file)
        except (OSError, ValueError) as error:
            raise SettingsError(f"webhook_ca_file cannot be used: {error}") from error
    return Egress(tls, settings.webhook_proxy)
