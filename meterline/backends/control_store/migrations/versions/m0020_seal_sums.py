"""Seals of old slices are added up, and what is filled in is a bound for each partition."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Bounds are found from seals and marks, when they are first asked for."""
    op.create_table(
        "seal_sums",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slice", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("offset_end", sa.BigInteger(), nullable=False),
        sa.Column("slices", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("catalogue", sa.BigInteger(), nullable=False),
        sa.Column("begin_ms", sa.BigInteger(), nullable=False),
        sa.Column("append_ms", sa.BigInteger(), nullable=False),
        sa.Column("rejects", sa.BigInteger(), nullable=False),
        sa.Column("tallies", sa.BigInteger(), nullable=False),
        sa.Column("members", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("log", "partition", "slice", name="pk_seal_sums"),
    )
    op.create_table(
        "fill_bounds",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("filled_end", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("log", "partition", "revision", name="pk_fill_bounds"),
    )
    op.drop_index("ix_seals_log_catalogue", table_name="seals")
