"""What a single setting may be: checks of networks, secrets, addresses and plans."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
)
from pydantic_settings import NoDecode

from meterline import limits
from meterline.access import Limited, Policy
from meterline.http.origins import parse_authority
from meterline.runtime.settings.text import decoded_list

LOG_EMBEDDED: Final = "sqlite"
USAGE_EMBEDDED: Final = "chdb"
CONTROL_EMBEDDED: Final = "sqlite"
LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SECRET_CHARS_MIN: Final = 32  # of a random text: less could be guessed

Network = IPv4Network | IPv6Network


def checked_network(value: object) -> object:
    """A network, also as text. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"{error}; write networks as 10.20.0.0/16 or fd00::/8") from error


def checked_proxy(url: str) -> str:
    """The address of an HTTP proxy. Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme == "http"
            and bool(parts.hostname)
            and parts.port != 0
            and parts.path in {"", "/"}
        )
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be http://host:port or http://user:password@host:port of a proxy")
    return url


def checked_secret(key: SecretStr) -> SecretStr:
    """A secret that is long enough. Raises `ValueError`."""
    if len(key.get_secret_value()) < SECRET_CHARS_MIN:
        raise ValueError(f"must be random text of at least {SECRET_CHARS_MIN} characters")
    return key


def checked_log_url(url: str) -> str:
    """`sqlite`, or Kafka's servers. Raises `ValueError`."""
    if url == LOG_EMBEDDED:
        return url
    servers = url.removeprefix("kafka://")
    if "@" in url:  # not shown: it may hold a password, and this URL is in log lines
        raise ValueError("holds no login: set log_sasl, log_user and log_password_file")
    if servers == url:
        raise ValueError("must be sqlite or start with kafka://")
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{server!r} is not host:port")
    return url


def checked_usage_url(url: str) -> str:
    """`chdb`, or the address of a ClickHouse server. Raises `ValueError`."""
    if url != USAGE_EMBEDDED and not _is_of_server(url, ("http://", "https://")):
        raise ValueError("must be chdb or an http:// or https:// URL of a ClickHouse server")
    return url


def checked_control_url(url: str) -> str:
    """`sqlite`, or the address of a PostgreSQL server. Raises `ValueError`."""
    if url != CONTROL_EMBEDDED and not _is_of_server(url, ("postgresql://",)):
        raise ValueError("must be sqlite or a postgresql:// URL with a host")
    return url


def _is_of_server(url: str, schemes: tuple[str, ...]) -> bool:
    """Whether it has a host, and a port that is one. What is wrong with it is not said: a password
    with a `/` is read as a port.
    """
    try:
        parts = urlsplit(url)
        return url.startswith(schemes) and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def checked_inboxes(topics: dict[str, str], info: ValidationInfo) -> dict[str, str]:
    """Without Kafka there is nothing to read them from. Raises `ValueError`."""
    if topics and info.data.get("log_url") == LOG_EMBEDDED:
        raise ValueError("needs Kafka: set log_url to kafka://host:port, or remove inbox_topics")
    return topics


def checked_host(text: str) -> str:
    """A host, or a host and a port, in its one spelling. Raises `ValueError`."""
    try:
        host, port = parse_authority(text)
    except ValueError as error:
        message = f"{error}; write a host as meter.example.com or meter.example.com:8443"
        raise ValueError(message) from error
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


AllowedHosts = Annotated[
    tuple[Annotated[str, AfterValidator(checked_host)], ...],
    NoDecode,
    BeforeValidator(decoded_list),
    Field(
        max_length=limits.ALLOWED_HOSTS_MAX,
        description="More host names that mode `none` answers for, besides localhost and IP "
        "addresses; their pages may send changes. With a port, only that port. Set it if a proxy "
        "in front passes on its own host name.",
        examples=[["meter.example.com", "meter.example.com:8443"]],
    ),
]


StartTimeout = Annotated[
    int,
    Field(
        ge=1,
        le=86_400,
        description="How long a start waits for Kafka, ClickHouse and PostgreSQL before it exits "
        "with code 1. Change it if servers take longer, or if a scheduler restarts the process.",
        examples=[300],
    ),
]


def checked_grace(grace_ms: int, info: ValidationInfo) -> int:
    """A run must not start before the last event of its window is durable (docs/architecture.md,
    "Completeness"). Raises `ValueError`.
    """
    if {"produce_deadline_ms", "clock_skew_ms"} <= info.data.keys():
        least = info.data["produce_deadline_ms"] + info.data["clock_skew_ms"]
        if grace_ms < least:
            raise ValueError(f"must be at least produce_deadline_ms + clock_skew_ms = {least}")
    return grace_ms


class LimitSetting(BaseModel):
    """So many units in a window, on average; the whole of it may come at once."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    quota: Annotated[int, Field(ge=1, le=limits.LIMIT_QUOTA_MAX)]
    window_s: Annotated[int, Field(ge=1, le=limits.LIMIT_WINDOW_S_MAX)] = 60


class PlanSetting(BaseModel):
    """The limits of a plan; one that is absent does not apply."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    requests: LimitSetting | None = None
    events: LimitSetting | None = None

    @property
    def policies(self) -> tuple[Policy, ...]:
        """As the throttle takes them."""
        given = ((Limited.REQUESTS, self.requests), (Limited.EVENTS, self.events))
        return tuple(
            Policy(name.value, one.quota, one.window_s) for name, one in given if one is not None
        )


PlanName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9_-]{{1,{limits.PLAN_NAME_CHARS_MAX}}}$")]


def is_loopback(host: str) -> bool:
    """Is an address to listen on reached from this machine only?

    A name other than localhost may be any address, so it counts as one that others reach.
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def default_partitions(settings: dict[str, Any]) -> int:
    """How many a new log has."""
    embedded = settings["log_url"] == LOG_EMBEDDED
    return limits.PARTITIONS_EMBEDDED if embedded else limits.PARTITIONS_KAFKA


def default_open_slices(settings: dict[str, Any]) -> int:
    """The memory that open slices may take: one process may have all partitions."""
    of_partitions: int = settings["partitions"] * limits.OPEN_SLICES_PARTITION_BYTES
    return max(limits.OPEN_SLICES_BYTES_MIN, of_partitions)


def default_seen_dir(settings: dict[str, Any]) -> Path:
    """Beside all else."""
    folder: Path = settings["data_dir"]
    return folder / "seen"


def default_networks(settings: dict[str, Any]) -> tuple[Network, ...]:
    """Receivers on this machine are for trying things out: embedded, and without API keys. Whoever
    gives out keys has callers who must not reach what else listens on this machine.
    """
    alone = settings["log_url"] == LOG_EMBEDDED and settings["access_mode"] == "none"
    return LOOPBACK if alone else ()
