"""Reports: definition and schedule, runs and their bodies, corrections, ports of their store."""

from meterline.report.backlog import Backlog, BacklogStore
from meterline.report.body import (
    MESSAGE_TYPE,
    NO_SEQUENCE,
    TEST_SUBJECT,
    TEST_TRIGGER,
    ManifestDigest,
    Scene,
    Statement,
    body_of_test,
    statements,
)
from meterline.report.correction import (
    NOTHING,
    Cause,
    Correction,
    CorrectionsDigest,
    Groups,
    KeptCorrection,
)
from meterline.report.correction_ports import (
    Baseline,
    CorrectionStore,
    DecidedWindow,
    LateStore,
    LateWindow,
)
from meterline.report.entries import Figures, Gathering, SubjectUsage, too_large
from meterline.report.filter import ReportFilter, filter_document, parse_filter, subjects_asked
from meterline.report.ports import (
    Booked,
    Claim,
    DuePlans,
    OpenSpool,
    Plan,
    ReportStore,
    RetiredSecret,
    Spool,
    WaitingRuns,
)
from meterline.report.report import (
    INTERVALS,
    REPORT_MOVES,
    Interval,
    Report,
    ReportChange,
    ReportMove,
    ReportState,
    Revisions,
    RunUnreadable,
    Schedule,
    Takeover,
    Unreadable,
    changed,
    in_force,
)
from meterline.report.resumption import NOT_ASKED_FOR, Owed, Resumed
from meterline.report.run import (
    EVERY_RUN,
    RUN_MOVES,
    UNDECIDED,
    LogEnds,
    Manifest,
    Run,
    RunMove,
    RunQuery,
    RunState,
    Trigger,
    outcome_of,
    run_id,
    run_sources,
    run_target,
)
from meterline.report.start import StartTerms
from meterline.report.status import LastError, ReportStatus, ReportStatusStore
from meterline.report.test_delivery_ports import ReportTester, ReportTestStore, SentTest
