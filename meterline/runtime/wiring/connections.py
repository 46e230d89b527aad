"""How Kafka and ClickHouse are reached, from the settings."""

from meterline.backends.clickhouse.clients.access import ServerAccess
from meterline.runtime.connections.kafka import KafkaSecurity
from meterline.runtime.connections.tls import FreshContext, TlsFiles
from meterline.runtime.connections.watched import SecretFile
from meterline.runtime.settings.fields import Settings


def kafka_security(settings: Settings) -> KafkaSecurity:
    """What every client of Kafka is made with. Raises `ValueError` and `OSError` where a file was
    changed for the worse since the settings were read.
    """
    tls = None
    if settings.log_tls:
        files = TlsFiles(settings.log_ca_file, settings.log_cert_file, settings.log_key_file)
        tls = FreshContext(files)
    secret = settings.log_token_file or settings.log_password_file
    return KafkaSecurity(
        tls,
        settings.log_sasl,
        settings.log_user,
        None if secret is None else SecretFile(secret),
    )


def usage_access(settings: Settings) -> ServerAccess:
    """What every client of ClickHouse is made with. Raises as `kafka_security` does."""
    tls = None
    if settings.usage_url.startswith("https://"):
        files = TlsFiles(settings.usage_ca_file, settings.usage_cert_file, settings.usage_key_file)
        tls = FreshContext(files)
    password = settings.usage_password_file
    return ServerAccess(
        tls,
        None if password is None else SecretFile(password),
        settings.usage_cert_file is not None,
        settings.connect_timeout_s,
        settings.usage_timeout_s,
    )
