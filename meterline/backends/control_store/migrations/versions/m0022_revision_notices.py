"""The table of revisions whose rows the usage store does not keep any more."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """All rows were kept before, so it is empty."""
    op.create_table(
        "revision_notices",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("catalogue", sa.BigInteger(), nullable=False),
        sa.Column("given_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("log", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("slice", sa.BigInteger(), nullable=False),
        sa.Column("closed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("lessened_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("dropped_at_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["meter_revisions.revision"],
            name="fk_revision_notices_revision",
        ),
        sa.PrimaryKeyConstraint("revision", name="pk_revision_notices"),
    )
