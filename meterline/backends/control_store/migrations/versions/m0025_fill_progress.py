"""The table of how far backfill is, for people."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0023"


def upgrade() -> None:
    """Nothing is known of what was filled in before."""
    op.create_table(
        "fill_progress",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begun_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("slices_filled", sa.BigInteger(), nullable=False),
        sa.Column("slices_left", sa.BigInteger(), nullable=False),
        sa.Column("events_filled", sa.BigInteger(), nullable=False),
        sa.Column("events_left", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("log", "partition", name="pk_fill_progress"),
    )
