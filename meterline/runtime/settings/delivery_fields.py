"""What can be set of sending deliveries: the types of those fields of `Settings`, with their bounds
and what they are for.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from meterline import limits
from meterline.runtime.connections.watched import read_secret
from meterline.runtime.settings.checks import (
    Network,
    checked_network,
    checked_proxy,
    checked_secret,
)
from meterline.runtime.settings.text import decoded_list

Networks = Annotated[
    tuple[Annotated[Network, BeforeValidator(checked_network)], ...],
    NoDecode,
    BeforeValidator(decoded_list),
    Field(
        description="Private networks that may receive deliveries. The default is loopback when "
        "embedded in mode `none`, otherwise none. Set it to deliver inside your own network.",
        examples=[["10.20.0.0/16"]],
    ),
]
CaFile = Annotated[
    Path | None,
    Field(
        description="PEM file of certificate authorities to trust for receivers, besides those of "
        "the machine. Set it if receivers use a private authority.",
        examples=["/etc/meterline/ca.pem"],
    ),
]
Proxy = Annotated[
    Annotated[str, AfterValidator(checked_proxy)] | None,
    Field(
        description="URL of an HTTP proxy for all deliveries; it may hold user:password. The "
        "proxy must then block private networks. Set it if only a proxy may connect to the "
        "outside.",
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
        description="Seconds before each of the first attempts of a delivery, including the first "
        "one. Change it to fit how long your receivers are usually down.",
        examples=[list(limits.RETRY_DELAYS_S)],
    ),
]
RetryEvery = Annotated[
    float,
    Field(
        gt=0,
        le=limits.RETRY_AFTER_MAX_S,
        description="Seconds between later attempts, until retry_patience_s has passed. Change it "
        "together with retry_delays_s.",
        examples=[limits.RETRY_EVERY_S],
    ),
]
RetryPatience = Annotated[
    float,
    Field(
        ge=0,
        le=limits.RETRY_PATIENCE_S_MAX,
        description="How long a delivery is retried, in seconds. A receiver that accepts nothing "
        "for so long, although it is tried regularly, is parked. 0: only the first attempts are "
        "made, and no receiver is parked for this. Change it to retry for longer or shorter.",
        examples=[limits.RETRY_PATIENCE_S],
    ),
]
ProbePause = Annotated[
    float,
    Field(
        gt=0,
        le=limits.PROBE_PAUSE_S_MAX,
        description="Seconds before one delivery is sent to test a receiver that is down; doubled "
        "after every third failure, up to 45 times as long. Change it if receivers restart often.",
        examples=[limits.PROBE_PAUSE_S],
    ),
]
EndpointPerSecond = Annotated[
    Annotated[float, Field(gt=0, le=limits.ENDPOINT_PER_SECOND_MAX)] | None,
    Field(
        description="Most deliveries per second that one dispatcher sends to one URL, evenly "
        "spaced. No limit if absent. Set it for slow receivers.",
        examples=[20],
    ),
]
DeliveryTimeout = Annotated[
    float,
    Field(
        gt=0,
        le=limits.DELIVERY_LEASE_S / 2,
        description="Longest wait for a receiver's answer. Change it for slow receivers.",
        examples=[15],
    ),
]


def checked_key_file(path: Path | None, info: ValidationInfo) -> Path | None:
    """A file with a secret that is long enough. Raises `ValueError`."""
    if path is None:
        return None
    if info.data.get("secret_key") is not None:
        raise ValueError("secret_key is set too: remove one of them")
    checked_secret(SecretStr(read_secret(path)))
    return path


SecretKeyFile = Annotated[
    Path | None,
    Field(
        description="File with what secret_key would hold, as one line. It is read at start. Set "
        "it instead of secret_key if your platform mounts secrets as files.",
        examples=["/run/secrets/meterline-key"],
    ),
    AfterValidator(checked_key_file),
]
