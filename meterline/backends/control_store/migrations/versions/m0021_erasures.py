"""The table of erasures: subjects whose name and payloads are removed on request."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Nothing was erased before, so it is empty."""
    op.create_table(
        "erasures",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("pseudonym", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("asked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("log", sa.Integer(), nullable=False),
        sa.Column("firsts", sa.Text(), nullable=False),
        sa.Column("ends", sa.Text(), nullable=False),
        sa.Column("log_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("settled_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("done_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
    )
    op.create_index("ix_erasures_namespace", "erasures", ["namespace", "id"])
    op.create_index("ix_erasures_state", "erasures", ["state"])
