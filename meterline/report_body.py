"""Usage rows to the exact bytes of deliveries (contract 2.5, 2.4, 2.3): one body per subject.

The bytes are a function of the run, the report, the meter revision and the rows, so a run that
is made twice has the same ones. Values are JSON numbers with all their digits, beside their
exact text for receivers whose numbers are doubles (design.md section 7).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from meterline.limits import DELIVERY_BODY_BYTES_MAX
from meterline.meter import Meter
from meterline.number import text
from meterline.report import Report
from meterline.report_filter import ReportFilter
from meterline.report_ports import Booked
from meterline.run import DeliveryDraft, Run, Trigger, delivery_id, digest_of
from meterline.usage import UsageRow
from meterline.window import MINUTE_MS, rfc3339_ms

MESSAGE_TYPE: Final = "report.meter"  # contract section 6
NO_USAGE: Final = b"[]"
NO_SEQUENCE: Final = 0  # of what is no delivery: those are numbered from 1
TRIAL_SUBJECT: Final = "meterline-test"  # design.md section 7
TRIAL_TRIGGER: Final = "test"  # by it a receiver knows a test: no run that is kept has it
NO_USAGE_DIGEST: Final = digest_of(NO_USAGE)


class BodyTooLarge(ValueError):
    """A subject has more groups than one body can carry; the text says which."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What passed the filter, by subject in order, and what did not, in figures (scaled
    integers).
    """

    by_subject: tuple[tuple[str, tuple[UsageRow, ...]], ...]
    entries: int
    filtered_out: int
    total: int
    total_filtered_out: int


@dataclass(frozen=True, slots=True)
class Statement:
    """The usage of one subject as it will stand in a body, and whose figures it replaces, if
    any.
    """

    subject: str
    usage: bytes  # JSON array
    supersedes: str | None = None

    @property
    def digest(self) -> bytes:
        """Names the figures: equal for equal figures."""
        return digest_of(self.usage)


def select(rows: Sequence[UsageRow], filter_: ReportFilter) -> Selection:
    """Judge each entry by the filter and gather the entries of a subject, sorted by groups."""
    by_subject: dict[str, list[UsageRow]] = {}
    filtered_out = total = total_filtered_out = 0
    for row in rows:
        assert row.subject is not None, "reports are split by subject"
        if filter_.accepts(row.subject, row.value):
            by_subject.setdefault(row.subject, []).append(row)
            total += row.value
        else:
            filtered_out += 1
            total_filtered_out += row.value
    ordered = tuple(
        (subject, tuple(sorted(by_subject[subject], key=lambda row: row.groups)))
        for subject in sorted(by_subject)
    )
    entries = len(rows) - filtered_out
    return Selection(ordered, entries, filtered_out, total, total_filtered_out)


def statements(run: Run, selection: Selection, booked: Mapping[str, Booked]) -> list[Statement]:
    """What is to be said: everything in a first run, only what differs from `booked` in a revision.

    A subject that was booked and has no entry any more is corrected to an empty usage.
    """
    said = []
    for subject, rows in selection.by_subject:
        held = booked.get(subject)
        supersedes = None if held is None else held.delivery_id
        statement = Statement(subject, _usage(run, subject, rows), supersedes)
        if held is None or held.usage_digest != statement.digest:
            said.append(statement)
    there = {subject for subject, _ in selection.by_subject}
    said += [
        Statement(subject, NO_USAGE, held.delivery_id)
        for subject, held in booked.items()
        if subject not in there and held.usage_digest != NO_USAGE_DIGEST
    ]
    return sorted(said, key=lambda statement: statement.subject)


def drafts(
    report: Report,
    meter: Meter,
    run: Run,
    said: Sequence[Statement],
    sequence_first: int,
    complete_until_ms: int,
) -> Iterator[DeliveryDraft]:
    """The deliveries of a run, one after the other. Raises `BodyTooLarge`."""
    scene = Scene(report, meter, run, complete_until_ms, len(said))
    for place, statement in enumerate(said):
        number, sequence = place + 1, sequence_first + place
        body = scene.body(statement, number, sequence)
        if len(body) > DELIVERY_BODY_BYTES_MAX:
            raise BodyTooLarge(
                f"the delivery for subject {statement.subject!r} would have {len(body)} bytes, more"
                f" than {DELIVERY_BODY_BYTES_MAX}; group the report by fewer keys, or filter it"
            )
        name = delivery_id(report.id, run.from_ms, run.to_ms, statement.subject, run.revision)
        yield DeliveryDraft(
            name,
            statement.subject,
            number,
            sequence,
            body,
            digest_of(body),
            statement.digest,
            statement.supersedes,
        )


class Scene:
    """What the bodies of a run have in common; `of` is how many they are, and `trigger` why it
    was made, if not what the run says.
    """

    def __init__(
        self,
        report: Report,
        meter: Meter,
        run: Run,
        complete_until_ms: int,
        of: int,
        *,
        trigger: str | None = None,
    ) -> None:
        self._report = report
        self._run = run
        self._trigger = trigger or run.trigger.value
        self._of = of
        self._complete_until = rfc3339_ms(complete_until_ms)
        self._meter = msgspec.Raw(msgspec.json.encode(meter_document(meter)))

    def body(self, statement: Statement, number: int, sequence: int) -> bytes:
        """The body of one delivery, by its number in the run and in the report."""
        members = {
            "id": self._run.id,
            "trigger": self._trigger,
            "sequence": sequence,
            "number": number,
            "of": self._of,
            "revision": self._run.revision,
            "supersedes": statement.supersedes,
            "completeUntil": self._complete_until,
        }
        return _body(self._report, self._run, statement, self._meter, members)


def trial_body(report: Report, meter: Meter, name: str, now_ms: int) -> bytes:
    """The body of a test delivery: of the minute that is over, without usage. Its `run.trigger` is
    `test`, so that a receiver books nothing.
    """
    to_ms = now_ms - now_ms % MINUTE_MS
    run = Run(
        name, report.id, report.namespace, to_ms - MINUTE_MS, to_ms, 1, Trigger.MANUAL, now_ms
    )
    scene = Scene(report, meter, run, to_ms, 1, trigger=TRIAL_TRIGGER)
    return scene.body(Statement(TRIAL_SUBJECT, NO_USAGE), 1, NO_SEQUENCE)


def manifest_digest(parts: Sequence[tuple[str, bytes]]) -> str:
    """One digest over the ids and body digests of a run's deliveries, in order, in hex."""
    digest = blake2b(digest_size=32)
    for name, body_digest in parts:
        digest.update(name.encode())
        digest.update(body_digest)
    return digest.hexdigest()


def meter_document(meter: Meter) -> dict[str, object]:
    """The meter as deliveries carry it (contract 2.3)."""
    return {
        "id": meter.id,
        "slug": meter.key,
        "description": meter.description,
        "aggregation": meter.aggregation.value.upper(),
        "windowSize": "MINUTE",
        "eventType": meter.event_type,
        "valueProperty": meter.value_property or "",
        "groupBy": dict(meter.dimensions),
    }


def _usage(run: Run, subject: str, rows: Sequence[UsageRow]) -> bytes:
    from_, to = rfc3339_ms(run.from_ms), rfc3339_ms(run.to_ms)
    return msgspec.json.encode(
        [
            {
                "subject": subject,
                "value": msgspec.Raw(text(row.value).encode()),
                "valueText": text(row.value),
                "groupBy": dict(row.groups),
                "windowStart": from_,
                "windowEnd": to,
            }
            for row in rows
        ]
    )


def _body(
    report: Report,
    run: Run,
    statement: Statement,
    meter_text: msgspec.Raw,
    members: Mapping[str, object],
) -> bytes:
    return msgspec.json.encode(
        {
            "type": MESSAGE_TYPE,
            # of the window, not of the clock: the same bytes whenever the run is made
            "timestamp": rfc3339_ms(run.to_ms),
            "report": {"slug": report.slug},
            "usage": msgspec.Raw(statement.usage),
            "query": {
                "from": rfc3339_ms(run.from_ms),
                "to": rfc3339_ms(run.to_ms),
                "subject": statement.subject,
                "groupBy": report.group_by,
            },
            "meter": meter_text,
            "run": members,
        }
    )
