"""Usage rows to the exact bytes of deliveries (contract 2.5, 2.4, 2.3): one body per subject.

The bytes are a function of the run, the report, the meter revision and the rows, so a run that
is made twice has the same ones. Values are JSON numbers with all their digits, beside their
exact text for receivers whose numbers are doubles.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from meterline.delivery import DeliveryDraft, delivery_id, digest_of
from meterline.limits import DELIVERY_BODY_BYTES_MAX
from meterline.meter import Meter
from meterline.report.entries import SubjectUsage, too_large
from meterline.report.ports import Booked
from meterline.report.report import Report
from meterline.report.run import Run, Trigger
from meterline.window import MINUTE_MS, rfc3339_ms

MESSAGE_TYPE: Final = "report.meter"  # contract section 6
NO_USAGE: Final = b"[]"
NO_SEQUENCE: Final = 0  # of what is no delivery: those are numbered from 1
TEST_SUBJECT: Final = "meterline-test"
TEST_TRIGGER: Final = "test"  # by it a receiver knows a test: no run that is kept has it
NO_USAGE_DIGEST: Final = digest_of(NO_USAGE)


@dataclass(frozen=True, slots=True)
class Statement:
    """The usage of one subject as it will stand in a body, and whose figures it replaces, if
    any.
    """

    subject_usage: SubjectUsage
    supersedes: str | None = None

    @property
    def subject(self) -> str:
        """Whose usage it is."""
        return self.subject_usage.subject


def statements(
    subject_usage: Sequence[SubjectUsage], booked: Mapping[str, Booked]
) -> list[Statement]:
    """What is to be said: everything where nothing is booked, else only what differs.

    A subject that was booked and has no entry any more is corrected to an empty usage. Both are of
    the same subjects; the answer is ordered by them.
    """
    found = []
    for one in subject_usage:
        held = booked.get(one.subject)
        supersedes = None if held is None else held.delivery_id
        if held is None or held.usage_digest != one.digest:
            found.append(Statement(one, supersedes))
    if not booked:
        return found
    there = {one.subject for one in subject_usage}
    found += [
        Statement(_nothing(subject), held.delivery_id)
        for subject, held in booked.items()
        if subject not in there
        and held.delivery_id is not None
        and held.usage_digest != NO_USAGE_DIGEST
    ]
    return sorted(found, key=lambda statement: statement.subject)


def _nothing(subject: str) -> SubjectUsage:
    return SubjectUsage(subject, NO_USAGE, len(NO_USAGE), NO_USAGE_DIGEST, 0, 0)


class Scene:
    """What the deliveries of a run have in common; `of` is how many they are, and `trigger` why it
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

    def draft(self, statement: Statement, number: int, sequence: int) -> DeliveryDraft:
        """One delivery, by its number in the run and in the report; without bytes where they would
        be too many.
        """
        run, subject_usage = self._run, statement.subject_usage
        size, body = self.body(statement, number, sequence)
        failure = None if body is not None else too_large(subject_usage, size)
        name = delivery_id(
            run.report_id, run.from_ms, run.to_ms, subject_usage.subject, run.revision
        )
        return DeliveryDraft(
            name,
            subject_usage.subject,
            number,
            sequence,
            body or b"",
            digest_of((failure or "").encode() if body is None else body),
            subject_usage.digest,
            # what never arrives replaces nothing
            statement.supersedes if failure is None else None,
            failure,
        )

    def body(self, statement: Statement, number: int, sequence: int) -> tuple[int, bytes | None]:
        """The length of a body and its bytes; None where they would be too many."""
        usage = statement.subject_usage.usage
        if usage is None:
            rest = len(self._body(statement, NO_USAGE, number, sequence)) - len(NO_USAGE)
            return rest + statement.subject_usage.size, None
        body = self._body(statement, usage, number, sequence)
        return len(body), body if len(body) <= DELIVERY_BODY_BYTES_MAX else None

    def _body(self, statement: Statement, usage: bytes, number: int, sequence: int) -> bytes:
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
        return msgspec.json.encode(
            {
                "type": MESSAGE_TYPE,
                # of the window, not of the clock: the same bytes whenever the run is made
                "timestamp": rfc3339_ms(self._run.to_ms),
                "report": {"slug": self._report.slug},
                "usage": msgspec.Raw(usage),
                "query": {
                    "from": rfc3339_ms(self._run.from_ms),
                    "to": rfc3339_ms(self._run.to_ms),
                    "subject": statement.subject,
                    "groupBy": self._report.group_by,
                },
                "meter": self._meter,
                "run": members,
            }
        )


def body_of_test(report: Report, meter: Meter, name: str, now_ms: int) -> bytes:
    """The body of a test delivery: of the minute that is over, without usage. Its `run.trigger` is
    `test`, so that a receiver books nothing.
    """
    to_ms = now_ms - now_ms % MINUTE_MS
    run = Run(
        name, report.id, report.namespace, to_ms - MINUTE_MS, to_ms, 1, Trigger.MANUAL, now_ms
    )
    scene = Scene(report, meter, run, to_ms, 1, trigger=TEST_TRIGGER)
    _, body = scene.body(Statement(_nothing(TEST_SUBJECT)), 1, NO_SEQUENCE)
    assert body is not None, "without usage it is small"
    return body


def manifest_digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """One digest over the ids and digests of a run's deliveries, in order, in hex."""
    digest = ManifestDigest()
    for name, of_delivery in parts:
        digest.add(name, of_delivery)
    return digest.hex()


class ManifestDigest:
    """The same, one delivery after the other."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=32)

    def add(self, name: str, digest: bytes) -> None:
        """The next delivery: its id and digest."""
        self._digest.update(name.encode())
        self._digest.update(digest)

    def hex(self) -> str:
        """That of those so far."""
        return self._digest.hexdigest()


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
