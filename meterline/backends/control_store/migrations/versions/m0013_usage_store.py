"""The id of the usage store, and how many rows each sealed slice wrote into it."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Older seals count no rows of these tables: fewer losses are found by them."""
    for name in ("rejects", "tallies", "members", "rejected"):
        column = sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"))
        op.add_column("seals", column)
    op.create_table(
        "usage_store",
        sa.Column("one", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.CheckConstraint("one = 1", name=op.f("ck_usage_store_single_row")),
        sa.PrimaryKeyConstraint("one", name=op.f("pk_usage_store")),
    )
