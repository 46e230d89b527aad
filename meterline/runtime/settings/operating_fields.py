"""What can be set for those who operate it: the types of those fields of `Settings`."""

from typing import Annotated

from pydantic import Field

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
