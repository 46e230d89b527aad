"""Reports: when their runs start, what is not made up for, their last errors, bytes that end."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Columns that are NULL in what was there already: as the installation has it."""
    op.add_column("reports", sa.Column("grace_ms", sa.BigInteger))
    op.add_column("reports", sa.Column("skip_until_ms", sa.BigInteger))
    op.add_column("report_runs", sa.Column("bytes_removed_to", sa.Integer))
    with_bytes = sa.text(
        "state IN ('succeeded', 'partly_failed', 'failed') AND deliveries > 0"
        " AND (bytes_removed_to IS NULL OR bytes_removed_to < deliveries)"
    )
    op.create_index(
        "ix_report_runs_with_bytes",
        "report_runs",
        ["decided_at_ms"],
        sqlite_where=with_bytes,
        postgresql_where=with_bytes,
    )
    op.create_table(
        "report_last_errors",
        sa.Column("report_id", sa.Text, sa.ForeignKey("reports.id"), primary_key=True),
        sa.Column("delivery_id", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
    )
    delivering = sa.text("state = 'delivering'")
    op.create_index(
        "ix_report_runs_delivering",
        "report_runs",
        ["report_id", "decided_at_ms"],
        sqlite_where=delivering,
        postgresql_where=delivering,
    )
