"""How a record of the log lies in a topic: its kind, its log and its time are headers."""

from collections.abc import Sequence
from typing import Final

from meterline.event import Record, RecordKind

LOG_HEADER: Final = "meterline-log"
APPENDED_HEADER: Final = "meterline-appended"  # of a restored record, in unix milliseconds
KIND_HEADER: Final = "meterline-kind"
_KINDS: Final = {kind.encode(): kind for kind in RecordKind}


def headers_of(
    log_id: str, kind: RecordKind, append_ms: int | None = None
) -> list[tuple[str, bytes]]:
    """The headers of a message. `append_ms` is given for a record of a log that was restored: the
    topic takes its messages in later.
    """
    headers = [(LOG_HEADER, log_id.encode()), (KIND_HEADER, kind.encode())]
    if append_ms is not None:
        headers.append((APPENDED_HEADER, str(append_ms).encode()))
    return headers


def kafka_record(
    partition: int,
    offset: int,
    timestamp_ms: int,
    headers: Sequence[tuple[str, bytes]],
    value: bytes | None,
) -> Record:
    """The record of the log that a message of the topic is, whichever client brought it."""
    named = dict(headers)
    appended = named.get(APPENDED_HEADER, b"")
    return Record(
        partition,
        offset,
        int(appended) if appended.isdigit() else timestamp_ms,
        _KINDS.get(named.get(KIND_HEADER, b""), RecordKind.PACK),
        value or b"",
        named.get(LOG_HEADER, b"").decode(errors="replace"),
    )
