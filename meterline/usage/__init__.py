"""Usage: the rows that counting writes, usage queries and their answers."""

from meterline.usage.account import AccountLine, AccountQuery, MeterAccount
from meterline.usage.block import (
    COUNTED_STATES,
    Block,
    BlockState,
    Column,
    Coverage,
    Due,
    Held,
    Merge,
    Renewal,
    Stretches,
    begun_at_ms,
    block_number,
    columns_of,
    coverage_of,
    covering,
    differences,
    ends_of,
    may_be_readable,
    merge_due,
    unequal,
    withdrawn,
)
from meterline.usage.block_ports import BlockLedger, BlockRows
from meterline.usage.cells import (
    Cells,
    Dropped,
    Hidden,
    Lack,
    Need,
    Plan,
    Range,
    cells_of,
    concerning,
    dropped_before,
    lack_of,
    plan_of,
    whole_from,
)
from meterline.usage.condition import LISTS, Comparison, Condition, Operand
from meterline.usage.erasure import (
    UNSETTLED,
    ErasedRows,
    Erasure,
    ErasureLedger,
    ErasureState,
    ErasureStore,
    Masks,
    erased_from,
    hidden_of,
    may_finish,
    pseudonym_of,
)
from meterline.usage.fold import EventFold, Key, RowMaker, minutes_of, rows_of, span_of, starts_of
from meterline.usage.integrity.checked import (
    CheckedBlockRows,
    CheckedErasedRows,
    CheckedLateEvents,
    CheckedPeriods,
    CheckedRevisionRows,
    CheckedUsageStore,
)
from meterline.usage.integrity.comparison import (
    Holdings,
    Sealed,
    SealedRows,
    Standing,
    UsageIntegrity,
    WholeLife,
)
from meterline.usage.integrity.difference import (
    SliceDifference,
    TableDifference,
    of_kept,
    table_differences,
)
from meterline.usage.integrity.messages import needless_message
from meterline.usage.integrity.older import (
    NEWEST_SLICES,
    NewestRevision,
    NewestSlices,
    check_not_older,
    check_revisions_known,
)
from meterline.usage.integrity.shards import Shards, id_of, placed, store_of
from meterline.usage.late import late_before, late_rows
from meterline.usage.ports import (
    AccountStore,
    LateEvents,
    Life,
    Stretch,
    SubjectUsageStore,
    Touched,
    UsageStore,
)
from meterline.usage.progress_ports import ProgressStore, SeenBulk, SeenStore
from meterline.usage.query import Filter, Operator, UsageQuery, UsageRow
from meterline.usage.retention.minutes import (
    MINUTE_TABLES,
    dropped_of,
    late_from_ms,
    may_be_made_again,
    why_minutes_stay,
)
from meterline.usage.retention.periods import (
    BY_PERIOD,
    EVENTS,
    MEMBERS,
    REJECTS,
    SEEN,
    TALLIES,
    Kept,
    Notice,
    Period,
    Reach,
    RetentionLedger,
    RetentionTerms,
    SealedEnd,
    UsagePeriods,
    complete_times_from,
    counted_from,
    expired,
    is_sealed,
    kept_of,
    may_drop,
    newest_counted,
)
from meterline.usage.retention.revisions import (
    RevisionLedger,
    RevisionNotice,
    RevisionRows,
    SliceRows,
    Unsealed,
    may_delete,
    may_lessen,
    unsealed_of,
)
from meterline.usage.retention.seal_sums import Borders, SealSum, borders, next_sum, summed
from meterline.usage.row_hash import (
    TEXTS,
    counted,
    counted_of,
    seen_bytes,
    tally_hash,
    together,
)
from meterline.usage.rows import (
    CELL_TABLES,
    NO_POSITION,
    AccountRow,
    CatchingUp,
    Counted,
    EventRow,
    Filling,
    Flush,
    Lacking,
    MemberRow,
    RawEvent,
    RejectedRow,
    RejectRow,
    Seal,
    SeenExtent,
    SeenRow,
    SeenSpan,
    SliceId,
    TallyRow,
)
