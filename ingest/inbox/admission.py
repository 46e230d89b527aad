"""Admission of an inbox record: one CloudEvent per Kafka record (CloudEvents Kafka binding 1.0).

Structured mode: the value is the event. Binary mode: attributes are headers `ce_*`, the value is
the data. The rules are those of the gateway; `recordedtime` is the record's append time in the
inbox, so that a record that is read twice becomes the same event twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ingest.admission import AdmissionRules, Admitted, BodyForm, admit
from ingest.binary_mode import event_text, refused
from meterline.event import Refusal, identity_key, partition_of
from meterline.limits import REJECT_TEXT_BYTES_MAX
from meterline.problem import Fault, Problem

CONTENT_TYPE: Final = "content-type"
PREFIX: Final = "ce_"
STRUCTURED: Final = "application/cloudevents"


@dataclass(frozen=True, slots=True)
class InboxRecord:
    """A record of an inbox topic; `append_ms` is the broker's time of its append."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes


def admit_record(record: InboxRecord, namespace: str, rules: AdmissionRules) -> Admitted | Refusal:
    """The event of a record, or why it is none. Nothing is raised: no record may stop the inbox."""
    text = record.value
    try:
        text = _text_of(record)
        (admitted,) = admit(text, BodyForm.ONE, namespace, record.append_ms, rules)
    except Problem as problem:
        fault = problem.faults[0] if problem.faults else Fault("", problem.detail)
    except Exception as error:  # noqa: BLE001 - a fault of ours, or of a kind nobody thought of
        why = str(error) or f"{type(error).__name__} (a defect of Meterline: please report it)"
        fault = Fault("", f"cannot be read: {why}")
    else:
        return admitted
    # In binary mode the text is that of the whole event: so it can be read, mended and sent anew.
    return refuse(replace(record, value=text), namespace, fault.field, fault.reason)


def refuse(record: InboxRecord, namespace: str, field: str, reason: str) -> Refusal:
    """The refusal of a record, with what it holds, or the beginning of that."""
    return Refusal(
        namespace,
        record.topic,
        record.partition,
        record.offset,
        field,
        reason,
        record.value[:REJECT_TEXT_BYTES_MAX].decode(errors="replace"),
        record.append_ms or None,
    )


def refusal_partition(refusal: Refusal, partitions: int) -> int:
    """The partition of the log that a refusal goes to: always the same for one inbox record."""
    where = f"{refusal.partition}/{refusal.offset}"
    return partition_of(identity_key(refusal.namespace, refusal.topic, where), partitions)


def _text_of(record: InboxRecord) -> bytes:
    """The event's JSON. Raises `Problem`."""
    # A header without a value says as little as a member that is null: it is taken as absent.
    headers = {name.lower(): value for name, value in record.headers if value is not None}
    media_type = headers.get(CONTENT_TYPE, b"").decode(errors="replace")
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type.startswith(STRUCTURED):
        if media_type != BodyForm.ONE.value:
            reason = f"must be {BodyForm.ONE.value}: an inbox record is one event as JSON"
            raise refused(CONTENT_TYPE, reason, "header")
        return record.value
    if not any(name.startswith(PREFIX) for name in headers):
        return record.value
    attributes = [
        (name.removeprefix(PREFIX), raw) for name, raw in headers.items() if name.startswith(PREFIX)
    ]
    return event_text(attributes, media_type, record.value, PREFIX)
