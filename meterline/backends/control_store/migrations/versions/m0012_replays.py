"""Replays of many deliveries; which delivery replaces another."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the table, and the index."""
    op.create_table(
        "replays",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("report_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("subject", sa.Text),
        sa.Column("from_min_ms", sa.BigInteger),
        sa.Column("to_max_ms", sa.BigInteger),
        sa.Column("failed_since_ms", sa.BigInteger),
        sa.Column("decided_max_ms", sa.BigInteger),
        sa.Column("per_second", sa.Integer, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("replayed", sa.BigInteger, nullable=False),
        sa.Column("in_flight", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger),
        sa.Column("due_at_ms", sa.BigInteger),
        sa.Column("after_decided_at_ms", sa.BigInteger),
        sa.Column("after_run_id", sa.Text),
        sa.Column("after_number", sa.Integer),
    )
    op.create_index("ix_replays_namespace", "replays", ["namespace", "id"])
    due = sa.text("due_at_ms IS NOT NULL")
    op.create_index(
        "ix_replays_due", "replays", ["due_at_ms"], sqlite_where=due, postgresql_where=due
    )
    replaces = sa.text("supersedes IS NOT NULL")
    op.create_index(
        "ix_report_deliveries_supersedes",
        "report_deliveries",
        ["supersedes"],
        sqlite_where=replaces,
        postgresql_where=replaces,
    )
