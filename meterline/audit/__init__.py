"""The audit: recount stored rows from raw events, and find the events behind a number."""

from meterline.audit.audit import (
    ABSENT,
    ERASED,
    NEVER,
    PRESENT,
    AuditedBody,
    AuditedRun,
    AuditSpan,
    AuditStep,
    BlockPlace,
    CellDifference,
    CellRows,
    Chunk,
    Filled,
    Finding,
    Kept,
    Place,
    Recount,
    RunPlace,
    SlicePlace,
    Strange,
    TallyValues,
    Touched,
    cell_named,
    decode_place,
    described,
    encode_place,
    values_of,
)
from meterline.audit.checked_readers import CheckedAccounts, CheckedLineage, CheckedRefusals
from meterline.audit.lineage import (
    Behind,
    Position,
    Reported,
    ReportedDelivery,
    UsageEntry,
    checksum,
    reported,
)
from meterline.audit.ports import (
    Auditor,
    ControlEvidence,
    DeliveryLineage,
    EventLineage,
    UsageEvidence,
)
