"""The table of periods of the usage store that are not kept."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Nothing was dropped before, so it is empty."""
    op.create_table(
        "retention_notices",
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("before_ms", sa.BigInteger(), nullable=False),
        sa.Column("latest_ms", sa.BigInteger(), nullable=False),
        sa.Column("catalogue", sa.BigInteger(), nullable=False),
        sa.Column("given_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "period", name="pk_retention_notices"),
    )
