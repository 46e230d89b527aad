"""Tables of API keys and of changes, on the metadata of `schema`."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from meterline.backends.control_store.tables.meters import metadata

# One row. Whoever changes a key updates it first, so versions become visible in ascending order.
keys_version: Final = Table(
    "keys_version",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    CheckConstraint("one = 1", name="single_row"),
)

# Revoked keys stay: what they changed names them. Secrets are kept as hashes only.
api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # JSON array, sorted
    Column("plan", Text),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("previous_hash", LargeBinary),
    Column("previous_until_ms", BigInteger),
    Column("rotated_at_ms", BigInteger),
    Column("last_used_at_ms", BigInteger),
    Column("version", BigInteger, nullable=False),  # of the last change of this key
    Index("ix_api_keys_version", "version", "id"),
    Index("ix_api_keys_namespace", "namespace", "id"),
)

changes: Final = Table(
    "changes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("members", Text, nullable=False, server_default=text("''")),  # JSON: before and after
    Index("ix_changes_at_ms", "namespace", "at_ms", "id"),
    Index("ix_changes_subject_id", "namespace", "subject_id", "at_ms", "id"),
)
