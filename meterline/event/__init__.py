"""Events: their form, identity and verdict, the packs of the log, and the port of the log."""

from meterline.event.erased import ERASED_START, PSEUDONYM_PREFIX, is_erased, is_pseudonym
from meterline.event.event import (
    CHECK_BYTES,
    DEFAULT_NAMESPACE,
    KEY_BYTES,
    Event,
    decode_event,
    identity_key,
    instant_of,
    partition_of,
    payload_check,
)
from meterline.event.layout import (
    Growth,
    Heritage,
    Layout,
    check_growth,
    decode_mark,
    encode_mark,
    grown,
    may_be_laid_out,
    routes_known,
    strays_marked,
)
from meterline.event.listing import (
    INSTANTS,
    Column,
    Condition,
    EventQuery,
    EventSubject,
    ListedEvent,
    Op,
    Order,
    Place,
    SubjectQuery,
    decode_cursor,
    encode_cursor,
    like_parts,
)
from meterline.event.pack import (
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    decode_record,
    encode_pack,
    encode_refusal,
    index_of,
    offset_of,
    position,
    record_digest,
)
from meterline.event.path import MISSING, Getter, PathError, check_path, compile_path, simple_steps
from meterline.event.ports import (
    EventTraces,
    GrowingLog,
    Log,
    RefusedEvents,
    SettlementStore,
)
from meterline.event.refusal import (
    POSITION_PATTERN,
    Position,
    RefusalKind,
    RefusalState,
    Settlement,
    Way,
    begun,
    dismissed,
    inbox_record,
    is_whole,
    kind_of,
    parse_position,
    position_of,
    position_text,
    state_of,
    timed,
)
from meterline.event.registered_layout import laid_out
from meterline.event.tracing import NEEDLE, trace_of, traces_of, with_trace
from meterline.event.verdict import Verdict
