"""The table of how far seen stores are, for people."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Whoever catches up tells it anew, every few seconds."""
    op.create_table(
        "catch_up_progress",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begun_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("keys", sa.BigInteger(), nullable=False),
        sa.Column("keys_total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("log", "partition", name="pk_catch_up_progress"),
    )
