"""The table of blocks (tallies added up by hour and day), and how many late rows a seal has."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Stores of older builds get their blocks from the aggregator, in the background."""
    op.create_table(
        "blocks",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("log", sa.Integer(), nullable=False),
        sa.Column("stretches", sa.Text(), nullable=False),
        sa.Column("revision_after", sa.BigInteger(), nullable=False),
        sa.Column("revision_upto", sa.BigInteger(), nullable=False),
        sa.Column("begin_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("row_counts", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_blocks"),
    )
    op.add_column("seals", sa.Column("late", sa.BigInteger(), nullable=True))
    op.create_index("ix_blocks_log", "blocks", ["log"])
