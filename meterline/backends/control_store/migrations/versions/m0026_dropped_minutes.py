"""Since when rows of a period with a notice may be gone."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Usage by minute was not dropped before."""
    op.add_column("retention_notices", sa.Column("begun_at_ms", sa.BigInteger(), nullable=True))
