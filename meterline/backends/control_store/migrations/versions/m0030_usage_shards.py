"""The table that says which server of the usage store a partition is on."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Empty where there is one server."""
    op.create_table(
        "usage_shards",
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("server", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("partition", name="pk_usage_shards"),
    )
