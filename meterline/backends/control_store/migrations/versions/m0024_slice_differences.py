"""The table of sealed slices that differed when they were counted back once more."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Before, a log line told of them, and nothing else: so it is empty."""
    op.create_table(
        "slice_differences",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slice", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("found_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("differing", sa.Text(), nullable=False),
        sa.Column("mended_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("log", "partition", "slice", name="pk_slice_differences"),
    )
    open_ = sa.text("mended_at_ms IS NULL")
    op.create_index(
        "ix_slice_differences_open",
        "slice_differences",
        ["log", "partition", "slice"],
        sqlite_where=open_,
        postgresql_where=open_,
    )
