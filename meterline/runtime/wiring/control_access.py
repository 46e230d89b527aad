"""How PostgreSQL is reached, from the settings. Commands that need no other server import this."""

from typing import Any

from meterline.runtime.connections.tls import FreshContext, TlsFiles
from meterline.runtime.connections.watched import SecretFile
from meterline.runtime.settings.fields import Settings


def control_access(settings: Settings) -> dict[str, Any]:
    """What asyncpg takes. It asks for the password with each connection. Raises `ValueError` and
    `OSError` where a file was changed for the worse since the settings were read.
    """
    access: dict[str, Any] = {
        "timeout": settings.connect_timeout_s,
        "command_timeout": settings.control_timeout_s,
    }
    if settings.control_tls:
        files = (settings.control_ca_file, settings.control_cert_file, settings.control_key_file)
        access["ssl"] = FreshContext(TlsFiles(*files))
    if settings.control_password_file is not None:
        access["password"] = SecretFile(settings.control_password_file)
    return access
