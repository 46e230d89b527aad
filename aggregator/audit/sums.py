"""What an audit asks of slices whose seals were added up: their accounts must make the same sum."""

from meterline.audit import AuditStep, Finding, UsageEvidence
from meterline.usage import SealSum


async def sum_findings(usage: UsageEvidence, one: SealSum, step: AuditStep) -> list[Finding]:
    """How accounts differ from a sum of seals. Their events are not kept, so nothing is recounted
    or mended; the blocks that hold their usage are.
    """
    accounts = await usage.accounts_between(one.log, one.partition, one.slice, one.end)
    step.slices += one.slices
    step.not_kept += one.slices
    step.events += one.events
    place = f"{one.log}.{one.partition}.{one.slice}"
    found = [
        Finding("accounts", place, name, str(due), str(there))
        for name, due, there in (
            (f"slices before {one.end}", one.slices, len(accounts)),
            (f"new in slices before {one.end}", one.events, sum(it.new for it in accounts)),
        )
        if due != there
    ]
    for it in accounts:
        if it.received != it.new + it.duplicate + it.conflict + it.invalid:
            at = f"{it.log}.{it.partition}.{it.slice}"
            total = it.new + it.duplicate + it.conflict + it.invalid
            found.append(Finding("accounts", at, "received", str(total), str(it.received)))
    return found
