"""The tables of logs that get more partitions."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """No log has grown so far."""
    op.create_table(
        "log_growths",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partitions", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partitions_before", sa.Integer(), nullable=False),
        sa.Column("first_offset", sa.BigInteger(), nullable=False),
        sa.Column("begun_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("log", "partitions", name="pk_log_growths"),
    )
    op.create_table(
        "log_marks",
        sa.Column("log", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partitions", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("record_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("log", "partition", "partitions", name="pk_log_marks"),
    )
