"""Late usage: how it is found, and what it corrects of a run."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make tables and columns. What was sealed before is not looked at: how much of the log runs of
    then had counted was not kept.
    """
    _runs()
    _corrections()
    _late()
    op.execute(
        "INSERT INTO late_looks (log, partition, begun_end, looked_end)"
        " SELECT log, partition, max(offset_end), max(offset_end) FROM seals"
        " GROUP BY log, partition"
    )


def _runs() -> None:
    record = sa.text("'record'")
    revisions = sa.Column("revisions", sa.Text, nullable=False, server_default=record)
    op.add_column("reports", revisions)
    for column in (
        sa.Column("group_by", sa.Text),
        sa.Column("filter", sa.Text),
        sa.Column("counted", sa.Text),
        sa.Column("corrections", sa.Integer),
        sa.Column("corrections_digest", sa.Text),
    ):
        op.add_column("report_runs", column)
    op.create_index("ix_report_runs_window_end", "report_runs", ["report_id", "to_ms"])
    where = sa.text("to_ms - from_ms > 86400000")
    op.create_index(
        "ix_report_runs_long",
        "report_runs",
        ["report_id", "from_ms"],
        sqlite_where=where,
        postgresql_where=where,
    )


def _corrections() -> None:
    op.create_table(
        "run_corrections",
        sa.Column("run_id", sa.Text, sa.ForeignKey("report_runs.id"), primary_key=True),
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("old_value", sa.Text),
        sa.Column("new_value", sa.Text),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("replaces", sa.Text),
        sa.Column("replaced_digest", sa.LargeBinary),
    )


def _late() -> None:
    op.create_table(
        "late_looks",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("begun_end", sa.BigInteger, nullable=False),
        sa.Column("looked_end", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "late_windows",
        sa.Column("report_id", sa.Text, sa.ForeignKey("reports.id"), primary_key=True),
        sa.Column("from_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("to_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("due_at_ms", sa.BigInteger),
        sa.Column("revised_at_ms", sa.BigInteger, nullable=False),
    )
    due = sa.text("due_at_ms IS NOT NULL")
    op.create_index(
        "ix_late_windows_due",
        "late_windows",
        ["due_at_ms"],
        sqlite_where=due,
        postgresql_where=due,
    )
