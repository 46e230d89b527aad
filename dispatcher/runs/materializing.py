"""What a run says, from its usage to staged deliveries: in portions, in memory that is bounded
however many entries there are (docs/architecture.md, "The dispatcher").

First all rows are judged, and what each subject says is spooled: a body names the number of all.
Then bodies are made and written. A subject whose body would be too large has a delivery without
bytes, which says so in words; the others go their way.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dispatcher.runs.corrections import (
    Sent,
    changed_meanwhile,
    corrections_of,
    entries_of,
    is_sent,
    total_correction,
)
from dispatcher.runs.lease import Holding
from dispatcher.runs.usage_answers import Answers
from dispatcher.runs.waiting import Ready
from meterline import limits
from meterline.delivery import DeliveryDraft
from meterline.problem import Problem, ProblemType
from meterline.report import (
    Baseline,
    Booked,
    Claim,
    Correction,
    CorrectionsDigest,
    CorrectionStore,
    Figures,
    Gathering,
    LogEnds,
    Manifest,
    ManifestDigest,
    ReportStore,
    Scene,
    Spool,
    Statement,
    SubjectUsage,
    statements,
)


class _Record(msgspec.Struct, array_like=True):
    """What a subject says, as it is spooled."""

    subject: str
    usage: bytes | None
    size: int
    digest: bytes
    entries: int
    total: str  # of any length
    values: tuple[tuple[str, int], ...]
    supersedes: str | None


_encode = msgspec.msgpack.Encoder().encode
_records = msgspec.msgpack.Decoder(_Record)


@dataclass(frozen=True, slots=True)
class Making:
    """A run that is being made: under which claim, held how, and what it follows, if anything."""

    it: Ready
    claim: Claim
    holding: Holding
    baseline: Baseline | None
    reports: ReportStore
    corrections: CorrectionStore

    @property
    def sends(self) -> bool:
        """Whether what it says goes to the receiver."""
        return is_sent(self.it.run, self.it.report)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a run says in figures: its statements are in the spool, its corrections are staged."""

    figures: Figures
    statements: int
    corrections: int
    corrections_digest: str | None  # None in a first run


async def gather(making: Making, answers: Answers, spool: Spool) -> Gathered:
    """Judge all entries and spool what is said of them. Raises `LeaseLost` and `Problem`."""
    it, holding = making.it, making.holding
    keeps_rows = making.baseline is not None
    gathering = Gathering(it.run, it.report.filter, keeps_rows=keeps_rows)
    comparison = _Comparison(making, spool)
    async for rows in answers.portions():
        usages: list[SubjectUsage] = []
        for start in range(0, len(rows), limits.RUN_ROWS_JUDGED):
            usages += gathering.add(rows[start : start + limits.RUN_ROWS_JUDGED])
            await holding.keep()
            await asyncio.sleep(0)
        if usages:
            await comparison.take(usages, usages[-1].subject)
    await comparison.take(gathering.end(), None)
    await comparison.end()
    figures = gathering.figures
    others, others_total = await answers.left_out()
    figures.filtered_out += others
    figures.total_filtered_out += others_total
    digest = None if making.baseline is None else comparison.digest.hex()
    return Gathered(figures, comparison.statements, comparison.corrections, digest)


class _Comparison:
    """Compares what subjects say with what is booked for them, spools what is to be said, and
    stages what it corrects.
    """

    def __init__(self, making: Making, spool: Spool) -> None:
        self._making = making
        self._spool = spool
        self._after: str | None = None
        self._waiting: list[Correction] = []
        self.statements = 0
        self.corrections = 0
        self.digest = CorrectionsDigest()

    async def take(self, usages: Sequence[SubjectUsage], until: str | None) -> None:
        """Subjects in order, all up to one that have something to say; None: to the last."""
        making, booked = self._making, dict[str, Booked]()
        if making.it.run.revision > 1:
            booked = await making.reports.booked(making.it.run, self._after, until)
        self._after = until
        found = statements(usages, booked)
        if making.baseline is not None:
            await self._correct(making.baseline, found)
        self.statements += len(found)
        if making.sends:
            await self._spool.append([_encode(_record(it)) for it in found])
        await making.holding.keep()

    async def _correct(self, baseline: Baseline, found: Sequence[Statement]) -> None:
        making = self._making
        changed = changed_meanwhile(baseline, making.it.report, making.it.meter.revision)
        for start in range(0, len(found), limits.STAGED_BODIES_MAX):
            chunk = found[start : start + limits.STAGED_BODIES_MAX]
            await making.holding.keep()
            names = {it.supersedes for it in chunk if it.supersedes is not None}
            bodies = await making.corrections.sent_bodies(names) if names else {}
            for one in chunk:
                subject_usage, sent = one.subject_usage, _sent(one.supersedes, bodies)
                if subject_usage.usage is None:
                    self._waiting += total_correction(subject_usage, sent, changed)
                    continue
                now = entries_of(subject_usage.rows)
                self._waiting += corrections_of(
                    subject_usage.subject, sent, now, subject_usage.left_out, changed
                )
            if len(self._waiting) >= limits.CORRECTIONS_STAGED_MAX:
                await self.end()

    async def end(self) -> None:
        """Stage the corrections that wait."""
        making, waiting, self._waiting = self._making, self._waiting, []
        for start in range(0, len(waiting), limits.CORRECTIONS_STAGED_MAX):
            chunk = waiting[start : start + limits.CORRECTIONS_STAGED_MAX]
            await making.holding.keep()
            await making.corrections.stage_corrections(making.claim, chunk, self.corrections + 1)
            self.corrections += len(chunk)
            for one in chunk:
                self.digest.add(one)


def _sent(name: str | None, bodies: dict[str, bytes]) -> Sent | None:
    if name is None:
        return None
    if name not in bodies:
        detail = f"the body of the previous delivery, {name}, was removed (delivery_bytes_days)"
        raise Problem(ProblemType.CONFLICT, detail)
    return Sent(name, bodies[name])


async def write(
    making: Making, gathered: Gathered, spool: Spool, counted: LogEnds | None
) -> Manifest:
    """Make the bodies of what was spooled and stage them; the manifest of it all. Raises
    `LeaseLost`.
    """
    it, claim = making.it, making.claim
    deliveries = gathered.statements if making.sends else 0
    scene = Scene(it.report, it.meter, it.run, it.complete_until_ms, deliveries)
    digest, number = ManifestDigest(), 0

    def drafts(records: Sequence[bytes]) -> Iterator[DeliveryDraft]:
        for place, record in enumerate(records):
            statement = _statement(_records.decode(record))
            sequence = claim.sequence_next + number + place
            draft = scene.draft(statement, number + place + 1, sequence)
            digest.add(draft.id, draft.digest)
            yield draft

    async for records in spool.portions(limits.SPOOL_READ_BYTES):
        await making.holding.stage(drafts(records))
        number += len(records)
    assert number == deliveries, "what was spooled is read whole"
    figures = gathered.figures
    return Manifest(
        deliveries=number,
        entries=figures.entries,
        filtered_out=figures.filtered_out,
        total=figures.total,
        total_filtered_out=figures.total_filtered_out,
        complete_until_ms=it.complete_until_ms,
        digest=digest.hex(),
        sequence_first=claim.sequence_next if number else 0,
        corrections=gathered.corrections,
        corrections_digest=gathered.corrections_digest,
        counted=counted,
    )


def _record(statement: Statement) -> _Record:
    subject_usage = statement.subject_usage
    return _Record(
        subject_usage.subject,
        subject_usage.usage,
        subject_usage.size,
        subject_usage.digest,
        subject_usage.entries,
        str(subject_usage.total),
        subject_usage.values,
        statement.supersedes,
    )


def _statement(record: _Record) -> Statement:
    subject_usage = SubjectUsage(
        record.subject,
        record.usage,
        record.size,
        record.digest,
        record.entries,
        int(record.total),
        record.values,
    )
    return Statement(subject_usage, record.supersedes)
