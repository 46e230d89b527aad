"""Binary mode: an event whose attributes came apart from its data, as one JSON text (CloudEvents
1.0, bindings for HTTP and Kafka). The text is then admitted by the same rules as any other.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from ingest.judgement import REQUIRED
from meterline.problem import Fault, Problem, ProblemType

HTTP_PREFIX: Final = "ce-"
_QUOTE: Final = b'"'


def event_text(
    attributes: Iterable[tuple[str, bytes]], media_type: str, data: bytes, prefix: str
) -> bytes:
    """The JSON of the event. `attributes` are without the prefix of their headers, `media_type` is
    that of the data.

    Raises `Problem` where an attribute is not UTF-8 or the data is not JSON.
    """
    members = []
    typed = False
    for name, raw in attributes:
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise refused(prefix + name, "is not UTF-8", "header") from error
        typed = typed or name == "datacontenttype"
        members.append(_member(name, text))
    if media_type and not typed:
        # what is no UTF-8 in a header stays wrong without it, and can then be written
        named = media_type.encode(errors="replace").decode()
        members.append(_member("datacontenttype", named))
    if data:
        try:
            # Data goes in as it is; being one whole JSON value, it cannot reach out of its place.
            msgspec.json.decode(data, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refused("data", f"not JSON: {error}", "body") from error
        members.append(b'"data":' + data)
    return b"{" + b",".join(members) + b"}"


def http_attributes(raw_headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
    """The attributes among the headers of a request; none where it is not in binary mode: none of
    those that an event must have is there.

    Values may be quoted, and are percent-encoded where they must be (HTTP binding 3.1.3.2).
    """
    found = [
        (name.removeprefix(HTTP_PREFIX), unquote_to_bytes(_unquoted(value)))
        for raw, value in raw_headers
        if (name := raw.decode("latin-1").lower()).startswith(HTTP_PREFIX)
    ]
    return found if any(name in REQUIRED for name, _ in found) else []


def _unquoted(value: bytes) -> bytes:
    if len(value) > 1 and value.startswith(_QUOTE) and value.endswith(_QUOTE):
        return value[1:-1].replace(rb"\"", _QUOTE).replace(rb"\\", b"\\")
    return value


def _member(name: str, text: str) -> bytes:
    return msgspec.json.encode(name) + b":" + msgspec.json.encode(text)


def refused(field: str, reason: str, source: str) -> Problem:
    """The problem of a header, or of the data, that no event can be made of."""
    fault = Fault(field, reason, source=source)
    return Problem(ProblemType.INVALID_EVENT, f"{field}: {reason}", (fault,))
