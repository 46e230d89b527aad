"""What can be set of sending deliveries: the types of those fields of `Settings`, with their bounds
and what they are for.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from meterline import limits
from meterline.runtime.settings.checks import Network, checked_network, checked_proxy
from meterline.runtime.settings.text import decoded_list

Networks = Annotated[
    tuple[Annotated[Network, BeforeValidator(checked_network)], ...],
    NoDecode,
    BeforeValidator(decoded_list),
    Field(
        description="Networks that are not public and yet may receive deliveries; by default "
        "loopback when embedded in mode `none`, else none. Whoever delivers inside its own "
        "network.",
        examples=[["10.20.0.0/16"]],
    ),
]
CaFile = Annotated[
    Path | None,
    Field(
        description="A file of certificates (PEM) that receivers are trusted by, besides those "
        "that this machine trusts. Whoever has receivers behind an authority of their own.",
        examples=["/etc/meterline/ca.pem"],
    ),
]
Proxy = Annotated[
    Annotated[str, AfterValidator(checked_proxy)] | None,
    Field(
        description="URL of an HTTP proxy that all deliveries go through; it may hold "
        "user:password. It is then the proxy that must not reach what is private. Whoever lets "
        "nothing out but through a proxy.",
        examples=["http://proxy.example.com:3128"],
    ),
]
RetryDelays = Annotated[
    tuple[Annotated[float, Field(ge=0, le=limits.RETRY_AFTER_MAX_S)], ...],
    NoDecode,
    BeforeValidator(decoded_list),
    Field(
        min_length=1,
        max_length=50,
        description="Seconds before each of the first attempts of a delivery, the very first "
        "included. Whoever knows how long its receivers stay away.",
        examples=[list(limits.RETRY_DELAYS_S)],
    ),
]
RetryEvery = Annotated[
    float,
    Field(
        gt=0,
        le=limits.RETRY_AFTER_MAX_S,
        description="Seconds between the attempts after those, while patience lasts. As above.",
        examples=[limits.RETRY_EVERY_S],
    ),
]
RetryPatience = Annotated[
    float,
    Field(
        ge=0,
        le=limits.RETRY_PATIENCE_S_MAX,
        description="How long a delivery is tried, in seconds; a receiver that took nothing for so "
        "long, though it was tried all along, is parked. 0: only the first attempts are made, and "
        "nothing is parked for it. Whoever waits longer for its receivers, or gives up sooner.",
        examples=[limits.RETRY_PATIENCE_S],
    ),
]
ProbePause = Annotated[
    float,
    Field(
        gt=0,
        le=limits.PROBE_PAUSE_S_MAX,
        description="Seconds before a receiver that is out is probed with one delivery; doubled "
        "with each that fails, up to 60 times as long. Whoever has receivers that restart often.",
        examples=[limits.PROBE_PAUSE_S],
    ),
]
EndpointPerSecond = Annotated[
    Annotated[float, Field(gt=0, le=limits.ENDPOINT_PER_SECOND_MAX)] | None,
    Field(
        description="Deliveries that one dispatcher sends to one URL in a second at most, at even "
        "distances; without it as many as are answered. Whoever has slow receivers.",
        examples=[20],
    ),
]
DeliveryTimeout = Annotated[
    float,
    Field(
        gt=0,
        le=limits.DELIVERY_LEASE_S / 2,
        description="Longest wait for a receiver's answer. Whoever has slow receivers.",
        examples=[15],
    ),
]
