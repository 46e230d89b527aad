"""What can be set of the log, and of what is read from it: the types of those fields of
`Settings`.
"""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from meterline.runtime.settings.checks import checked_inboxes
from meterline.runtime.settings.text import decoded

Topic = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._-]{1,249}$",
        description="Kafka topic of the log. Change it when you share a Kafka cluster.",
        examples=["meterline-events"],
    ),
]
Accepted = Annotated[
    str | None,
    Field(
        description="Id of a log to continue with although another log was counted before. Set it "
        "only if the old log is lost; the error that names the id says what it costs.",
        examples=["01M7ZMF4YA7D2SQ292V0W9JPT8"],
    ),
]
UsageLost = Annotated[
    str | None,
    Field(
        description="Id of a usage store that is lost. Everything that the log still holds is "
        "counted again into the new store, which must be empty. Set it only if there is no backup; "
        "the error names the id.",
        examples=["01M7ZMF4YA7D2SQ292V0W9JPT8"],
    ),
]
LossesAccepted = Annotated[
    dict[int, int],
    NoDecode,
    BeforeValidator(decoded),
    Field(
        description="Offset per partition at which to continue although earlier records expired "
        "before they were counted. Set it only if they are lost; the error names the offset.",
        examples=[{"3": 1_200}],
    ),
]
InboxTopics = Annotated[
    dict[str, str],
    NoDecode,
    BeforeValidator(decoded),
    AfterValidator(checked_inboxes),
    Field(
        description="Kafka topics to read events from, each with its namespace. Set it for "
        "producers that do not use HTTP.",
        examples=[{"orders": "default"}],
    ),
]
ConsumerGroup = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._-]{1,249}$",
        description="Kafka consumer group of the aggregators. Change it together with log_topic.",
        examples=["meterline-aggregator"],
    ),
]
InstanceId = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._-]{0,249}$",
        description="Name of this aggregator, unique in its consumer group and the same after "
        "each restart. If it returns within 30 seconds, it keeps its partitions. Set it on Kafka "
        "if seen_dir persists.",
        examples=["aggregate-1"],
    ),
]
