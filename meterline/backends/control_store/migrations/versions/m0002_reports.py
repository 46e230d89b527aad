"""Reports, their runs, deliveries and attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables of reports, in the order of their references."""
    _reports()
    _runs()
    _bodies()
    _deliveries()
    _attempts()


def _reports() -> None:
    op.create_table(
        "reports",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("meter_id", sa.Text, sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("interval", sa.Text, nullable=False),
        sa.Column("start_at_ms", sa.BigInteger, nullable=False),
        sa.Column("group_by", sa.Text, nullable=False),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("signing_secret_sealed", sa.LargeBinary, nullable=False),
        sa.Column("user_info_sealed", sa.LargeBinary),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_reason", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger),
        sa.Column("next_end_ms", sa.BigInteger, nullable=False),
        sa.Column("sequence_next", sa.BigInteger, nullable=False),
    )
    live = sa.text("deleted_at_ms IS NULL")
    op.create_index("ix_reports_meter_id", "reports", ["meter_id"])
    op.create_index(
        "uq_reports_live_slug",
        "reports",
        ["namespace", "slug"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_index(
        "ix_reports_next_end_ms",
        "reports",
        ["next_end_ms"],
        sqlite_where=live,
        postgresql_where=live,
    )


def _runs() -> None:
    op.create_table(
        "report_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("report_id", sa.Text, sa.ForeignKey("reports.id"), nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("from_ms", sa.BigInteger, nullable=False),
        sa.Column("to_ms", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("trigger", sa.Text, nullable=False),
        sa.Column("asked_at_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("supersedes", sa.Text),
        sa.Column("lease_holder", sa.Text),
        sa.Column("lease_until_ms", sa.BigInteger),
        sa.Column("meter_revision", sa.BigInteger),
        sa.Column("decided_at_ms", sa.BigInteger),
        sa.Column("ended_at_ms", sa.BigInteger),
        sa.Column("delivered", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("deliveries", sa.Integer),
        sa.Column("entries", sa.Integer),
        sa.Column("filtered_out", sa.Integer),
        sa.Column("total", sa.Text),
        sa.Column("total_filtered_out", sa.Text),
        sa.Column("complete_until_ms", sa.BigInteger),
        sa.Column("digest", sa.Text),
        sa.Column("sequence_first", sa.BigInteger),
        sa.UniqueConstraint(
            "report_id", "from_ms", "to_ms", "revision", name="uq_report_runs_window"
        ),
    )
    undecided = sa.text("state IN ('scheduled', 'waiting', 'materializing')")
    op.create_index(
        "ix_report_runs_undecided",
        "report_runs",
        ["report_id", "trigger", "to_ms"],
        sqlite_where=undecided,
        postgresql_where=undecided,
    )


def _bodies() -> None:
    op.create_table(
        "report_bodies",
        sa.Column("run_id", sa.Text, sa.ForeignKey("report_runs.id"), primary_key=True),
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("delivery_id", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("usage_digest", sa.LargeBinary, nullable=False),
        sa.Column("supersedes", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _deliveries() -> None:
    op.create_table(
        "report_deliveries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("report_runs.id"), nullable=False),
        sa.Column("report_id", sa.Text, sa.ForeignKey("reports.id"), nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at_ms", sa.BigInteger),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("usage_digest", sa.LargeBinary, nullable=False),
        sa.Column("supersedes", sa.Text),
        sa.UniqueConstraint("run_id", "number", name="uq_report_deliveries_number"),
        sa.UniqueConstraint("report_id", "sequence", name="uq_report_deliveries_sequence"),
    )
    due = sa.text("due_at_ms IS NOT NULL")
    op.create_index(
        "ix_report_deliveries_due",
        "report_deliveries",
        ["report_id", "due_at_ms", "sequence"],
        sqlite_where=due,
        postgresql_where=due,
    )


def _attempts() -> None:
    op.create_table(
        "report_attempts",
        sa.Column("delivery_id", sa.Text, sa.ForeignKey("report_deliveries.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("next_attempt_at_ms", sa.BigInteger),
    )
