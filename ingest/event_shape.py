"""A usage event as the documents show it (contract section 2.1; OpenMeter's v3).

`ingest.admission` and `ingest.judgement` decide; this says the same in the words of a schema, and
tests hold the two together.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from ingest.judgement import RESERVED
from meterline.http.shapes import Instant
from meterline.limits import ATTRIBUTE_CHARS_MAX, BATCH_EVENTS_MAX

_EXTENSIONS: Final[JsonDict] = {
    "propertyNames": {"pattern": "^[a-z0-9]{1,20}$", "not": {"enum": [*sorted(RESERVED)]}},
    "additionalProperties": {
        "type": ["string", "number", "boolean", "null"],
        "maxLength": ATTRIBUTE_CHARS_MAX,
    },
}
Attribute = Annotated[str, Field(min_length=1, max_length=ATTRIBUTE_CHARS_MAX)]


class EventBody(BaseModel):
    """A usage event (CloudEvents 1.0). Members that are not named here are extension attributes:
    they are kept, and not read.
    """

    model_config = ConfigDict(json_schema_extra=_EXTENSIONS)

    specversion: Literal["1.0"]
    id: Annotated[
        Attribute, Field(description="Id within the `source`. Both together count only once.")
    ]
    source: Annotated[Attribute, Field(description="The system that sends the event.")]
    type: Annotated[Attribute, Field(description="Meters select events by this type.")]
    subject: Annotated[Attribute, Field(description="Who used it, such as a customer.")]
    time: Annotated[
        Instant | None, Field(description="When it happened. If absent, the time of arrival.")
    ] = None
    datacontenttype: Literal["application/json"] | None = None
    dataschema: Attribute | None = None
    data: Annotated[
        dict[str, object] | None, Field(description="Meters read values from it by JSON paths.")
    ] = None


EventBatch = Annotated[list[EventBody], Field(max_length=BATCH_EVENTS_MAX)]
EXAMPLE: Final = {
    "specversion": "1.0",
    "id": "5c10fade-1c9e-4d6c-8275-c52c36731d3c",
    "source": "api-gateway",
    "type": "request",
    "subject": "customer-1",
    "time": "2026-01-31T10:00:00.000Z",
    "data": {"tokens": "1234", "model": "small"},
}
