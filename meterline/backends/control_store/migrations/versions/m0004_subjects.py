"""Subjects, as someone describes them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "subjects",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("display_name", sa.Text),
        sa.Column("metadata", sa.Text),
        sa.Column("current_period_start_ms", sa.BigInteger),
        sa.Column("current_period_end_ms", sa.BigInteger),
        sa.Column("stripe_customer_id", sa.Text),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("uq_subjects_key", "subjects", ["namespace", "key"], unique=True)
