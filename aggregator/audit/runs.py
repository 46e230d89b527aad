"""What an audit asks of runs: their deliveries are those that were decided, byte by byte."""

from hashlib import blake2b

from meterline.audit import (
    ABSENT,
    AuditedRun,
    AuditSpan,
    AuditStep,
    ControlEvidence,
    Finding,
    RunPlace,
)
from meterline.delivery import digest_of
from meterline.limits import AUDIT_BODIES_MAX, AUDIT_RUNS_MAX


async def run_step(
    control: ControlEvidence, span: AuditSpan, place: RunPlace, step: AuditStep
) -> tuple[list[Finding], RunPlace | None]:
    """Findings of the next runs, and where to go on; None where there are no more."""
    runs = await control.runs(place, span, AUDIT_RUNS_MAX)
    found = []
    for run in runs:
        found += _manifest_findings(run)
        found += await _body_findings(control, run)
        step.runs += 1
        step.deliveries += len(run.parts)
    if len(runs) < AUDIT_RUNS_MAX:
        return found, None
    return found, RunPlace(runs[-1].decided_at_ms, runs[-1].id)


async def _body_findings(control: ControlEvidence, run: AuditedRun) -> list[Finding]:
    found = []
    after = 0
    while bodies := await control.bodies(run.id, after, AUDIT_BODIES_MAX):
        for one in bodies:
            found_digest = ABSENT if one.body is None else digest_of(one.body).hex()
            if found_digest != one.digest.hex():
                named = ("deliveries", one.id, "digest of its body")
                found.append(Finding(*named, one.digest.hex(), found_digest))
        after = bodies[-1].number
    return found


def _manifest_findings(run: AuditedRun) -> list[Finding]:
    digest = blake2b(digest_size=32)
    for _, name, body_digest in run.parts:
        digest.update(name.encode() + body_digest)
    found = []
    if len(run.parts) != run.deliveries:
        texts = (str(run.deliveries), str(len(run.parts)))
        found.append(Finding("runs", run.id, "deliveries", *texts))
    if digest.hexdigest() != run.digest:
        found.append(Finding("runs", run.id, "manifest digest", run.digest, digest.hexdigest()))
    return found
