"""What can be set of connections to Kafka, ClickHouse and PostgreSQL: the types of those fields of
`Settings`. Names begin with the store: `log_`, `usage_`, `control_`.
"""

import ssl
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_settings import NoDecode

from meterline import limits
from meterline.runtime.connections.tls import TlsFiles, made
from meterline.runtime.connections.watched import read_secret
from meterline.runtime.settings.checks import USAGE_EMBEDDED, checked_usage_url
from meterline.runtime.settings.text import decoded_list

T = TypeVar("T")
TOKENS: Final = "OAUTHBEARER"
_TURN_ON: Final = {
    "log": "log_tls = true",
    "usage": "an https:// URL in usage_url",
    "control": "control_tls = true",
}


def _store(info: ValidationInfo) -> str:
    assert info.field_name is not None, "these are checks of fields"
    return info.field_name.split("_", 1)[0]


def _has_tls(store: str, data: dict[str, Any]) -> bool:
    """Also where nobody knows because another setting is wrong: that one is told."""
    if store == "usage":
        return str(data.get("usage_url", "https://")).startswith("https://")
    return bool(data.get(f"{store}_tls", True))


def checked_tls(tls: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic calls it
    """TLS needs a server. Raises `ValueError`."""
    store = _store(info)
    if tls and info.data.get(f"{store}_url") == "sqlite":
        server = "kafka://host:port" if store == "log" else "postgresql://user@host/database"
        raise ValueError(f"needs a server: set {store}_url to {server}, or remove it")
    if tls and store == "control" and "sslmode=" in info.data.get("control_url", ""):
        raise ValueError("control_url has sslmode: remove that, or control_tls")
    return tls


def _checked_file(path: Path | None, info: ValidationInfo) -> Path | None:
    """A file of TLS that is there. Raises `ValueError`."""
    store = _store(info)
    if path is None:
        return None
    if not _has_tls(store, info.data):
        raise ValueError(f"is only used with {_TURN_ON[store]}: set that too, or remove this")
    try:
        there = path.is_file()
    except (OSError, ValueError):  # what should be in it, rather than its path
        there = False
    if not there:
        raise ValueError("no such file, or this process may not see it")
    return path


def checked_ca(path: Path | None, info: ValidationInfo) -> Path | None:
    """Certificates that can be trusted. Raises `ValueError`."""
    if _checked_file(path, info) is not None:
        try:
            made(TlsFiles(ca=path))
        except OSError as error:
            raise ValueError(f"has no certificate in PEM that can be read: {error}") from error
    return path


def checked_key(path: Path | None, info: ValidationInfo) -> Path | None:
    """The key of the certificate. Raises `ValueError`."""
    store = _store(info)
    cert_name = f"{store}_cert_file"
    if cert_name not in info.data:
        return path  # it is wrong itself
    cert: Path | None = info.data[cert_name]
    if cert is None:
        if path is not None:
            raise ValueError(f"is the key of {cert_name}: set that too, or remove this")
        return None
    _checked_file(path, info)
    try:
        made(TlsFiles(cert=cert, key=path))
    except (ssl.SSLError, OSError) as error:
        raise ValueError(
            f"does not give the private key of {cert_name} ({_why(error)}). It must be PEM without"
            " a password, here or in the file of the certificate"
        ) from error
    return path


def _why(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error)


def checked_sasl(mechanism: str | None, info: ValidationInfo) -> str | None:
    """Only Kafka has it. Raises `ValueError`."""
    if mechanism is not None and info.data.get("log_url") == "sqlite":
        raise ValueError("needs Kafka: set log_url to kafka://host:port, or remove log_sasl")
    return mechanism


def checked_user(user: str | None, info: ValidationInfo) -> str | None:
    """Who PLAIN and SCRAM say that it is. Raises `ValueError`."""
    return _with_sasl(user, info, tokens=False)


def checked_kafka_password(path: Path | None, info: ValidationInfo) -> Path | None:
    """Of PLAIN and SCRAM. Raises `ValueError`."""
    return _checked_secret(_with_sasl(path, info, tokens=False))


def checked_token(path: Path | None, info: ValidationInfo) -> Path | None:
    """Of OAUTHBEARER. Raises `ValueError`."""
    return _checked_secret(_with_sasl(path, info, tokens=True))


def _with_sasl(value: T | None, info: ValidationInfo, *, tokens: bool) -> T | None:
    """What goes with a mechanism is there with it, and not without it."""
    if "log_sasl" not in info.data:
        return value
    mechanism = info.data["log_sasl"]
    wanted = mechanism is not None and (mechanism == TOKENS) == tokens
    if wanted and value is None:
        raise ValueError(f"log_sasl = {mechanism} needs it")
    if value is not None and not wanted:
        others = TOKENS if tokens else "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        raise ValueError(f"is only used with log_sasl = {others}: remove it, or set log_sasl")
    return value


def _checked_secret(path: Path | None) -> Path | None:
    if path is not None:
        read_secret(path)
    return path


def checked_password(path: Path | None, info: ValidationInfo) -> Path | None:
    """Of a store whose URL has none. Raises `ValueError`."""
    name = f"{_store(info)}_url"
    url = info.data.get(name, "")
    if path is not None and "://" not in url and url:
        raise ValueError(f"needs a server: set {name} to its URL, or remove this")
    if path is not None and urlsplit(url).password is not None:
        raise ValueError(f"{name} has a password too: remove it there")
    return _checked_secret(path)


def checked_shards(urls: list[str], info: ValidationInfo) -> list[str]:
    """Servers of one store. Raises `ValueError`."""
    first = str(info.data.get("usage_url", ""))
    if urls and first == USAGE_EMBEDDED:
        raise ValueError("needs a server: set usage_url to the first one, or remove this")
    if len({first, *urls}) != len(urls) + 1:
        raise ValueError("names a server twice, or that of usage_url")
    for url in urls:
        checked_usage_url(url)
        if first and _alike(url) != _alike(first):
            raise ValueError("must have the scheme and the database of usage_url")
    return urls


def checked_replicas(urls: list[str], info: ValidationInfo) -> list[str]:
    """Servers that have the same. Raises `ValueError`."""
    if urls and info.data.get("usage_shards"):
        raise ValueError(
            "does not go with usage_shards: a store has several servers, or one with replicas"
        )
    return checked_shards(urls, info)


def _alike(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.path.strip("/")


def checked_cluster(name: str | None, info: ValidationInfo) -> str | None:
    """Of several servers. Raises `ValueError`."""
    if "usage_shards" in info.data and bool(info.data["usage_shards"]) != (name is not None):
        raise ValueError("goes with usage_shards: set both, or remove both")
    return name


def _ca(server: str, turn_on: str) -> Any:
    return Field(
        description=f"PEM file of the certificate authorities that {server}'s certificate may come "
        f"from; those of the machine if absent. Read again when it changes. Set it with {turn_on} "
        "if the authority is your own.",
        examples=["/etc/meterline/ca.pem"],
    )


def _cert(server: str) -> Any:
    return Field(
        description=f"PEM file of the certificate that this process shows to {server}. Read again "
        f"when it changes. Set it if {server} asks for certificates of clients.",
        examples=["/etc/meterline/client.pem"],
    )


def _key(store: str) -> Any:
    return Field(
        validate_default=True,  # the certificate may need it
        description=f"PEM file of the private key, without a password, of {store}_cert_file. Set "
        "it if the file of the certificate does not hold the key too.",
        examples=["/etc/meterline/client-key.pem"],
    )


def _password(server: str, more: str) -> Any:
    return Field(
        validate_default=True,
        description=f"File with the password for {server}. Read again when it changes. {more}",
        examples=["/run/secrets/password"],
    )


def _timeout(server: str, what: str, least_s: int) -> Any:
    return Field(
        ge=least_s,
        le=limits.SERVER_TIMEOUT_S_MAX,
        description=f"Longest wait for {server} to answer {what}, in seconds. Change it for slow "
        "servers or long distances.",
        examples=[30],
    )


LogTls = Annotated[
    bool,
    Field(
        description="Connect to Kafka with TLS; certificate and host name are verified. Set it "
        "if the listener of the brokers is SSL or SASL_SSL.",
        examples=[True],
    ),
    AfterValidator(checked_tls),
]
LogCa = Annotated[Path | None, _ca("Kafka", "log_tls"), AfterValidator(checked_ca)]
LogCert = Annotated[Path | None, _cert("Kafka"), AfterValidator(_checked_file)]
LogKey = Annotated[Path | None, _key("log"), AfterValidator(checked_key)]
LogSasl = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None,
    Field(
        description="SASL mechanism to log in to Kafka with. Set it if the listener of the brokers "
        "is SASL_SSL or SASL_PLAINTEXT. Use PLAIN and OAUTHBEARER with log_tls only: they send "
        "the secret as it is.",
        examples=["SCRAM-SHA-512"],
    ),
    AfterValidator(checked_sasl),
]
LogUser = Annotated[
    str | None,
    Field(
        validate_default=True,
        min_length=1,
        description="User for log_sasl PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Set it with them.",
        examples=["meterline"],
    ),
    AfterValidator(checked_user),
]
LogPassword = Annotated[
    Path | None,
    _password("log_user", "Set it with log_user."),
    AfterValidator(checked_kafka_password),
]
LogToken = Annotated[
    Path | None,
    Field(
        validate_default=True,
        description="File with the token for log_sasl OAUTHBEARER. It is read for each connection: "
        "another program renews it. Set it with that mechanism.",
        examples=["/run/secrets/kafka-token"],
    ),
    AfterValidator(checked_token),
]
LogTimeout = Annotated[float, _timeout("Kafka", "a question, or a new connection", 1)]
UsageShards = Annotated[
    list[str],
    NoDecode,
    BeforeValidator(decoded_list),
    AfterValidator(checked_shards),
    Field(
        description="HTTP addresses of further ClickHouse servers: each partition of the log is on "
        "one of them, or on usage_url. Change it when one server is not enough: add another "
        "at the end. Never remove one, and never change their order.",
        examples=[["http://clickhouse-2:8123", "http://clickhouse-3:8123"]],
    ),
]
UsageCluster = Annotated[
    str | None,
    Field(
        validate_default=True,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Name of the cluster in remote_servers of the server at usage_url: that server "
        "and those of usage_shards, each as one shard. Set it with usage_shards.",
        examples=["meterline"],
    ),
    AfterValidator(checked_cluster),
]
UsageReplicas = Annotated[
    list[str],
    NoDecode,
    BeforeValidator(decoded_list),
    AfterValidator(checked_replicas),
    Field(
        description="HTTP addresses of further ClickHouse servers that each have everything which "
        "that at usage_url has. Set it to keep answers while a server is away, and rows when a "
        "disk is lost. They need ClickHouse Keeper. What is written is on all of them, so counting "
        "waits while one is away.",
        examples=[["http://clickhouse-b:8123"]],
    ),
]
UsageCa = Annotated[
    Path | None, _ca("ClickHouse", "usage_url https://"), AfterValidator(checked_ca)
]
UsageCert = Annotated[Path | None, _cert("ClickHouse"), AfterValidator(_checked_file)]
UsageKey = Annotated[Path | None, _key("usage"), AfterValidator(checked_key)]
UsagePassword = Annotated[
    Path | None,
    _password("ClickHouse", "Set it instead of a password in usage_url."),
    AfterValidator(checked_password),
]
UsageTimeout = Annotated[int, _timeout("ClickHouse", "a statement", limits.USAGE_READ_S_MAX)]
ControlTls = Annotated[
    bool,
    Field(
        description="Connect to PostgreSQL with TLS; certificate and host name are verified. Set "
        "it instead of sslmode in control_url.",
        examples=[True],
    ),
    AfterValidator(checked_tls),
]
ControlCa = Annotated[Path | None, _ca("PostgreSQL", "control_tls"), AfterValidator(checked_ca)]
ControlCert = Annotated[Path | None, _cert("PostgreSQL"), AfterValidator(_checked_file)]
ControlKey = Annotated[Path | None, _key("control"), AfterValidator(checked_key)]
ControlPassword = Annotated[
    Path | None,
    _password("PostgreSQL", "Set it instead of a password in control_url."),
    AfterValidator(checked_password),
]
ControlTimeout = Annotated[int, _timeout("PostgreSQL", "a statement", 5)]
ConnectTimeout = Annotated[
    int,
    Field(
        ge=1,
        le=limits.SERVER_TIMEOUT_S_MAX,
        description="Longest wait for a new connection to ClickHouse or PostgreSQL, in seconds. "
        "Change it for long distances.",
        examples=[10],
    ),
]
