"""Runs of a report in some state, found among very many."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_report_runs_state", "report_runs", ["report_id", "state", "to_ms"])
