"""The members of a subject, in every version of the API alike."""

from typing import Annotated

import msgspec
from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from meterline.http.shapes import NoNul
from meterline.limits import ATTRIBUTE_CHARS_MAX, SUBJECT_METADATA_BYTES_MAX, SUBJECT_NAME_CHARS_MAX


def _storable(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Metadata that reads back as it was sent, and is small."""
    text = msgspec.json.encode(metadata)
    if len(text) > SUBJECT_METADATA_BYTES_MAX:
        message = f"has more than {SUBJECT_METADATA_BYTES_MAX} bytes as JSON without spaces"
        raise PydanticCustomError("max_length", "{message}", {"message": message})
    if msgspec.json.decode(text) != metadata:  # NaN and infinity are no JSON
        raise PydanticCustomError("type", "contains NaN, Infinity or a number that is out of range")
    return metadata


Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=ATTRIBUTE_CHARS_MAX,
        description="`subject` of its events.",
        examples=["customer-1"],
    ),
    NoNul,
]


DisplayName = Annotated[
    str, Field(max_length=SUBJECT_NAME_CHARS_MAX, description="For people."), NoNul
]


Metadata = Annotated[
    dict[str, JsonValue],
    Field(description="Whatever its owner wants to find again."),
    AfterValidator(_storable),
]
