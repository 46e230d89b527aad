"""Refused events that were sent anew, or dismissed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_POSITION = ("log", "partition", "record_offset", "place")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "redrives",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("record_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("append_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("payload_check", sa.LargeBinary, nullable=False),
        sa.Column("event", sa.LargeBinary),
    )
    op.create_index("ix_redrives_state", "redrives", ["owner", "state", "append_ms", *_POSITION])
