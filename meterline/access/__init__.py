"""Access: API keys, scopes and rate limits, the record of changes, and descriptions of subjects."""

from meterline.access.access import (
    ANONYMOUS,
    EVERY_SCOPE,
    SECRET_BYTES,
    ApiKey,
    KeyDraft,
    KeyUpdate,
    Principal,
    Scope,
    Token,
    Verdict,
    bearer_text,
    faults_of,
    hash_of,
    lacks_plan,
    namespace_faults,
    overlap_faults,
    parse_token,
    refusal,
    rotation_refusal,
    token_of,
    update_faults,
    verdict,
)
from meterline.access.change import (
    AGGREGATOR,
    COMMAND,
    DISPATCHER,
    SETTINGS,
    Action,
    Change,
    Kind,
    members_of,
    members_text,
)
from meterline.access.ports import AccessStore, Rotation
from meterline.access.session import (
    Session,
    SessionToken,
    new_session,
    parse_session_token,
    session_token,
    session_verdict,
)
from meterline.access.session_ports import SessionStore
from meterline.access.subject import KEPT, Kept, Subject, SubjectDraft, described
from meterline.access.subject_ports import SubjectStore
from meterline.access.throttle import Bucket, Limited, Policy, Throttle
