"""Digests of the log in the seals."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """A column; seals that are there already have no digest, and are believed without."""
    op.add_column("seals", sa.Column("digest", sa.LargeBinary))
