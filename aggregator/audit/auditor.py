"""The audit of the whole installation, step by step: partitions, then blocks, then reports' runs.

Nothing is remembered between steps: a cursor says where the next one begins, so any process that
reaches the stores can take it, and an audit that was broken off goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from aggregator.audit.blocks import BlockAudit
from aggregator.audit.differences import RecordedDifferences, recorded_findings
from aggregator.audit.repair import SliceRepair
from aggregator.audit.runs import run_step
from aggregator.audit.slices import SliceAudit, Slices
from aggregator.audit.sums import sum_findings
from meterline.audit import (
    ABSENT,
    NEVER,
    PRESENT,
    AuditSpan,
    AuditStep,
    BlockPlace,
    Chunk,
    ControlEvidence,
    Finding,
    Place,
    RunPlace,
    SlicePlace,
    UsageEvidence,
    decode_place,
    encode_place,
)
from meterline.event import Log, offset_of, position
from meterline.limits import (
    AUDIT_EVENTS_MAX,
    AUDIT_FINDINGS_MAX,
    AUDIT_SLICES_MAX,
)
from meterline.meter import Catalogue, CatalogueStore
from meterline.usage import (
    EVENTS,
    MINUTE_TABLES,
    SEEN,
    AccountRow,
    Kept,
    ProgressStore,
    Seal,
    SliceId,
    UsageStore,
    dropped_before,
    dropped_of,
    kept_of,
)

_FIRST_RUN = RunPlace(0, "")
NAMES_AT_ONCE = 10_000


class AuditTerms(NamedTuple):
    """What settings say: the horizon, and by partition what losses of the log were accepted."""

    horizon_ms: int
    losses_accepted: Mapping[int, int] = {}


class StoreAuditor:
    """See `meterline.audit.Auditor`."""

    def __init__(
        self,
        log: Log,
        usage: UsageStore,
        progress: ProgressStore,
        catalogue: CatalogueStore,
        usage_evidence: UsageEvidence,
        control_evidence: ControlEvidence,
        blocks: BlockAudit,
        terms: AuditTerms,
    ) -> None:
        self._blocks = blocks
        self._losses_accepted = terms.losses_accepted
        self._log = log
        self._progress = progress
        self._catalogue = catalogue
        self._usage = usage_evidence
        self._control = control_evidence
        self._horizon_ms = terms.horizon_ms
        self._lines: dict[tuple[int, int], list[int]] = {}
        self._slices = SliceAudit(usage, usage_evidence)
        self._recorded = RecordedDifferences(progress, blocks)
        self._repair = SliceRepair(log, usage, usage_evidence, self._slices, blocks)

    async def step(self, span: AuditSpan, cursor: str | None) -> AuditStep:
        """See the port."""
        partitions = [
            SlicePlace(log, number, 0)
            for log, count in await self._control.logs()
            for number in range(count)
        ]
        first: Place = partitions[0] if partitions else _FIRST_RUN
        place = first if cursor is None else decode_place(cursor)
        following: Place | None
        step = AuditStep(
            slices_total=await self._control.seal_count(span),
            runs_total=await self._control.run_count(span),
        )
        if isinstance(place, RunPlace):
            found, following = await run_step(self._control, span, place, step)
        elif isinstance(place, BlockPlace):
            found, following = await self._block_step(span, place, step)
        else:
            found, following = await self._slice_step(span, place, step)
            if following is None:
                later = [it for it in partitions if it > (place.log, place.partition, NEVER)]
                following = later[0] if later else await self._block_at(span, BlockPlace(0, 0))
        step.findings = found[:AUDIT_FINDINGS_MAX]
        step.omitted = len(found) - len(step.findings)
        step.next = None if following is None else encode_place(following)
        return step

    # --- slices ---

    async def _slice_step(
        self, span: AuditSpan, place: SlicePlace, step: AuditStep
    ) -> tuple[list[Finding], SlicePlace | None]:
        catalogue = await self._catalogue.catalogue()
        found = []
        if place.slice == 0:
            found += await self._partition_findings(span, place, catalogue)
        if sums := await self._control.sums(place, span, 1):
            bounds = (place.log, place.partition, sums[0].slice, sums[0].end)
            found += recorded_findings(await self._recorded.between(*bounds))
            found += await sum_findings(self._usage, sums[0], step)
            return found, SlicePlace(place.log, place.partition, sums[0].end)
        notices = await self._control.notices()
        kept, minutes_from = kept_of(notices), dropped_before(dropped_of(notices))
        seals = _alike(_bounded(await self._control.seals(place, span, AUDIT_SLICES_MAX)), kept)
        if not seals:
            return found + await self._tail_findings(span, place, catalogue, step), None
        whole = span.from_ms is None or place.slice > 0
        first, end = place.slice if whole else seals[0].slice, seals[-1].end
        accounts = await self._usage.accounts_between(place.log, place.partition, first, end)
        sealed = {seal.slice for seal in seals}
        unsealed = [account for account in accounts if account.slice not in sealed]
        slices = await self._sealed(seals, first, accounts, catalogue, step, minutes_from)
        slices = self._lessened(slices, kept, step)
        found += await self._audited(slices, span, step)
        for account in unsealed:
            if place.partition not in self._losses_accepted:  # by which it may have been given up
                named = ("seals", f"{place.log}.{place.partition}.{account.slice}", "seal")
                found.append(Finding(*named, PRESENT, ABSENT))
            found += await self._open_findings(account, catalogue, span, step)
        return found, SlicePlace(place.log, place.partition, end)

    async def _sealed(
        self,
        seals: Sequence[Seal],
        first: int,
        accounts: Sequence[AccountRow],
        catalogue: Catalogue,
        step: AuditStep,
        minutes_from: int,
    ) -> Slices:
        """What is known of sealed slices, and the meters that they must hold. Of their usage by
        minute is read what is kept: from `minutes_from` on.
        """
        log, partition, *_ = seals[0]
        names = tuple(seal.slice for seal in seals)
        end = seals[-1].end
        parents = await self._parents(log, partition)
        chunk = Chunk(log, partition, names, first, end, NEVER, minutes_from, parents)
        filled = await self._control.filled(log, partition, names)
        oldest = min(seal.catalogue for seal in seals)
        meters = []
        for meter in catalogue.meters:
            counted = meter.revision <= oldest  # in all: the usual case
            held = names if counted else filled.held(seals, meter.revision)
            step.unfilled += len(names) - len(held)
            if held:
                meters.append((meter, replace(chunk, slices=held)))
        own = tuple(account for account in accounts if account.slice in names)
        known = frozenset(names) | {account.slice for account in accounts}
        step.slices += len(names)
        step.events += sum(seal.events for seal in seals)
        return Slices(chunk, tuple(seals), own, known, tuple(meters))

    def _lessened(self, slices: Slices, kept: Mapping[str, Kept], step: AuditStep) -> Slices:
        """Without what cannot be compared, because rows of these slices are not kept any more."""
        gone = _gone(slices.seals[0], kept)
        uncounted = not gone.isdisjoint((EVENTS, *MINUTE_TABLES))
        if uncounted:
            step.not_kept += len(slices.seals)
        seen_from_ms = kept[SEEN].from_ms if SEEN in kept else 0
        return replace(
            slices,
            meters=() if uncounted else slices.meters,
            gone=gone,
            firsts_gone=slices.seals[0].append_ms < seen_from_ms + self._horizon_ms,
        )

    async def _audited(self, slices: Slices, span: AuditSpan, step: AuditStep) -> list[Finding]:
        """Findings, and once mended, what remains of them."""
        recorded = await self._recorded.of(slices)
        suspects = {one.place for one in recorded}
        found = await self._slices.findings(slices, step, payloads=span.payloads, suspects=suspects)
        # Nothing is rebuilt from what is not there.
        if not span.repair or not (found or recorded) or slices.gone:
            return recorded_findings(recorded) + found
        places = {one.place for one in found} | suspects
        anew = {
            slices.place(seal.slice)
            for seal in slices.seals
            if await self._repair.mend(slices, seal, places)
        }
        bounds = (slices.chunk.log, slices.chunk.partition, slices.chunk.first, slices.chunk.end)
        accounts = await self._usage.accounts_between(*bounds)
        own = tuple(one for one in accounts if one.slice in slices.chunk.slices)
        again = replace(slices, accounts=own)
        left = await self._slices.findings(
            again, AuditStep(), payloads=span.payloads, suspects=suspects
        )
        # Of what was not written anew nobody knows more than when it was recorded.
        still = {one.place for one in left} | {one.place for one in recorded} - anew
        settled = await self._recorded.settled(recorded, still)
        return settled + _mended(found, left)

    async def _tail_findings(
        self, span: AuditSpan, place: SlicePlace, catalogue: Catalogue, step: AuditStep
    ) -> list[Finding]:
        """Open slices up to their accounts, and the ends of the log."""
        seal = await self._progress.last_seal(place.log, place.partition)
        end = 0 if seal is None else seal.end
        if span.to_ms is not None and seal is not None and seal.append_ms >= span.to_ms:
            return []
        accounts = await self._usage.accounts_between(place.log, place.partition, end, NEVER)
        found: list[Finding] = []
        for account in accounts:
            found += await self._open_findings(account, catalogue, span, step)
        if place.log == self._log.number:
            found += await self._log_findings(place.partition, end)
        return found

    async def _open_findings(
        self, account: AccountRow, catalogue: Catalogue, span: AuditSpan, step: AuditStep
    ) -> list[Finding]:
        log, partition, slice_, version = account[:4]
        minutes_from = dropped_before(dropped_of(await self._control.notices()))
        bounds = (slice_, offset_of(version) + 1, min(version, NEVER - 1))
        parents = await self._parents(log, partition)
        chunk = Chunk(log, partition, (slice_,), *bounds, minutes_from, parents)
        meters = []
        for meter in catalogue.meters:
            ends = await self._progress.flushed_ends(log, meter.revision)
            counted = position(ends.get(partition, 0), 0) - 1
            if counted > position(slice_, 0) - 1:
                meters.append((meter, replace(chunk, upto=min(chunk.upto, counted))))
        slices = Slices(chunk, (), (account,), frozenset({slice_}), tuple(meters))
        step.events += account.new
        return await self._slices.findings(slices, step, payloads=span.payloads)

    async def _partition_findings(
        self, span: AuditSpan, place: SlicePlace, catalogue: Catalogue
    ) -> list[Finding]:
        """What no single slice shows: cells of slices that there are not, events counted twice."""
        log, partition, _ = place
        lower_ms = 0 if span.from_ms is None else span.from_ms
        upper_ms = NEVER if span.to_ms is None else span.to_ms
        bounds_ms = (lower_ms, upper_ms)
        found = [
            Finding(one.table, f"{log}.{partition}.{one.slice}",
                    f"event at {log}.{partition}.{one.offset}.{one.place}", one.expected, one.found)
            for one in await self._usage.repeated(
                log, partition, bounds_ms, self._horizon_ms, AUDIT_FINDINGS_MAX,
                (partition, *await self._parents(log, partition)),
            )
        ]  # fmt: skip
        revisions = [meter.revision for meter in catalogue.meters]
        strays = await self._strays(span, place, revisions) if revisions else []
        if not strays:
            return found
        if span.repair:
            for slice_ in {slice_ for _, slice_ in strays}:
                await self._repair.purge(SliceId(log, partition, slice_), revisions)
        left = await self._strays(span, place, revisions) if span.repair else strays
        return found + [
            Finding(table, f"{log}.{partition}.{slice_}", "rows of cells", "0: no such slice",
                    "some", mended=(table, slice_) not in left)
            for table, slice_ in strays
        ]  # fmt: skip

    async def _parents(self, log: int, partition: int) -> tuple[int, ...]:
        """The partitions that one goes on from: its events may be copies of theirs."""
        if (log, partition) not in self._lines:
            self._lines[log, partition] = (await self._progress.layout(log)).line(partition)
        return tuple(self._lines[log, partition][1:])

    async def _strays(
        self, span: AuditSpan, place: SlicePlace, revisions: Sequence[int]
    ) -> list[tuple[str, int]]:
        """Tables and names of slices that there are not. One that is just begun has cells before it
        has an account, so names behind the last sealed slice are judged only beyond the log's end.
        """
        log, partition, _ = place
        there = await self._usage.cell_slices(log, partition, (0, NEVER), revisions)
        last = await self._progress.last_seal(log, partition)
        sealed_end = 0 if last is None else last.end
        begun_end = await self._log.end(partition) if log == self._log.number else sealed_end
        names: list[Seal] = []
        at = place
        while seals := await self._control.seals(at, span, NAMES_AT_ONCE):
            names += seals
            at = SlicePlace(log, partition, seals[-1].slice + 1)
        # Of slices whose seals were added up only accounts tell: without one, nothing is disproved.
        first = await self._control.summed_end(log, partition)
        if names and span.from_ms is not None:
            first = max(first, names[0].slice)
        end = names[-1].end if names and span.to_ms is not None else NEVER
        accounts = await self._usage.accounts_between(log, partition, first, end)
        known = {one.slice for one in names} | {one.slice for one in accounts}
        return sorted(
            (table, name)
            for table, name in there
            if first <= name < end and name not in known and not sealed_end <= name < begun_end
        )

    async def _log_findings(self, partition: int, sealed_end: int) -> list[Finding]:
        """The log must hold everything that is not counted, and end behind what is."""
        number = self._log.number
        flushed = (await self._progress.flushed_ends(number, 0)).get(partition, 0)
        begin, end = await self._log.begin(partition), await self._log.end(partition)
        first = (await self._progress.layout(number)).first(partition)
        place, counted = f"{number}.{partition}", max(sealed_end, flushed, first)
        found = []
        if end < counted:
            texts = (f"{counted} or beyond: all below is counted", str(end))
            found.append(Finding("log", place, "end", *texts))
        if begin > counted:
            texts = (f"{counted} or before: it is not counted", str(begin))
            found.append(Finding("log", place, "begin", *texts))
        return found

    # --- blocks ---

    async def _block_step(
        self, span: AuditSpan, place: BlockPlace, step: AuditStep
    ) -> tuple[list[Finding], Place]:
        """The next block, from what its slices are after the steps before this one."""
        block = await self._blocks.following(place.log, place.number, span)
        if block is None:
            return [], await self._block_at(span, place)
        if not await self._blocks.can_be_made_again(block):
            step.blocks_not_kept += 1
            return [], await self._block_at(span, BlockPlace(place.log, block.number + 1))
        step.blocks += 1
        found = await self._blocks.findings(block, repair=span.repair)
        return found, await self._block_at(span, BlockPlace(place.log, block.number + 1))

    async def _block_at(self, span: AuditSpan, place: BlockPlace) -> Place:
        """Where the first block from a place on is; without any, the first run."""
        for log, _ in await self._control.logs():
            if log >= place.log:
                first = place.number if log == place.log else 0
                block = await self._blocks.following(log, first, span)
                if block is not None:
                    return BlockPlace(log, block.number)
        return _FIRST_RUN


def _bounded(seals: Sequence[Seal]) -> list[Seal]:
    """As many as have not too many events, at least one."""
    taken: list[Seal] = []
    events = 0
    for seal in seals:
        events += seal.events
        if taken and events > AUDIT_EVENTS_MAX:
            break
        taken.append(seal)
    return taken


def _gone(seal: Seal, kept: Mapping[str, Kept]) -> frozenset[str]:
    """The tables that do not keep the rows of a slice any more."""
    return frozenset(table for table, one in kept.items() if seal.append_ms < one.from_ms)


def _alike(seals: Sequence[Seal], kept: Mapping[str, Kept]) -> list[Seal]:
    """The first ones, as long as the same tables keep their rows."""
    return list(takewhile(lambda seal: _gone(seal, kept) == _gone(seals[0], kept), seals))


def _mended(found: Sequence[Finding], left: Sequence[Finding]) -> list[Finding]:
    """What is left, then what is not there any more."""
    remaining = {one.key for one in left}
    gone = [one for one in found if one.key not in remaining]
    return [*left, *(replace(one, mended=True) for one in gone)]
