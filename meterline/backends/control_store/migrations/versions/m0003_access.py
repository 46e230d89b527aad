"""API keys, and the record of who changed what."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables of keys, then that of changes."""
    _keys()
    _changes()


def _keys() -> None:
    version = op.create_table(
        "keys_version",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.CheckConstraint("one = 1", name="single_row"),
    )
    op.bulk_insert(version, [{"one": 1, "version": 0}])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("plan", sa.Text),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger),
        sa.Column("revoked_at_ms", sa.BigInteger),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("previous_hash", sa.LargeBinary),
        sa.Column("previous_until_ms", sa.BigInteger),
        sa.Column("rotated_at_ms", sa.BigInteger),
        sa.Column("last_used_at_ms", sa.BigInteger),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_api_keys_version", "api_keys", ["version", "id"])
    op.create_index("ix_api_keys_namespace", "api_keys", ["namespace", "id"])


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_changes_at_ms", "changes", ["namespace", "at_ms", "id"])
    op.create_index("ix_changes_subject_id", "changes", ["namespace", "subject_id", "at_ms", "id"])
