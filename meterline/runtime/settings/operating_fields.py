"""What can be set for those who operate it: the types of those fields of `Settings`."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from meterline import limits

MetricsPort = Annotated[
    int | None,
    Field(
        ge=1,
        le=65_535,
        description="Port for `/metrics` alone, on `host`; absent: on the same port as the rest. "
        "Set it when the port of the API can be reached by people who may not see load and lag.",
        examples=[9464],
    ),
]

DrainS = Annotated[
    float,
    Field(
        ge=0,
        le=300,
        description="Seconds from SIGTERM, when `/readyz` begins to answer 503, until no more "
        "requests are accepted. Set it behind a load balancer, to twice its interval of probes.",
        examples=[10],
    ),
]


LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Field(
        description="Lowest level of log lines on stderr. Change it to look for a fault.",
        examples=["info"],
    ),
]
MetersMax = Annotated[
    int,
    Field(
        ge=1,
        le=limits.METERS_SET_MAX,
        description="How many meters a namespace may have. Each costs time on every event that it "
        "matches, and all processes read all meters when one changes. Change it if you make meters "
        "for each of your customers.",
        examples=[5_000],
    ),
]


def checked_workers(workers: int, info: ValidationInfo) -> int:
    """The embedded log belongs to one process. Raises `ValueError`."""
    if workers > 1 and info.data.get("log_url") == "sqlite":
        raise ValueError("needs Kafka: set log_url to kafka://host:port, or workers to 1")
    return workers


Workers = Annotated[
    int,
    Field(
        ge=1,
        le=limits.WORKERS_MAX,
        description="Processes of `meterline ingest` that share its port. They replace each other "
        "without a refused request on SIGHUP. Change it to use more cores of a machine.",
        examples=[1],
    ),
    AfterValidator(checked_workers),
]


def checked_traces_url(url: str) -> str:
    """Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        usable = usable and not parts.username
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            "must be an http:// or https:// URL without user and password: send a token by the"
            " variable OTEL_EXPORTER_OTLP_HEADERS"
        )
    return url


TracesUrl = Annotated[
    Annotated[str, AfterValidator(checked_traces_url)] | None,
    Field(
        description="Where traces are sent by OTLP over HTTP, path included; absent: nowhere. It "
        "needs `meterline[traces]`. The standard variables `OTEL_EXPORTER_OTLP_HEADERS` and "
        "`OTEL_RESOURCE_ATTRIBUTES` are read too. Set it to see where the time of a request goes.",
        examples=["http://collector:4318/v1/traces"],
    ),
]
TracesRatio = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Part of the requests, and of the runs, that begin a trace. A request or event "
        "that brings a `traceparent` follows its sampled flag instead: with flags `00` it has no "
        "spans. Change it to see more, at a higher cost.",
        examples=[0.01],
    ),
]
