"""What a change found and what it left; of those until now it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column."""
    column = sa.Column("members", sa.Text, nullable=False, server_default=sa.text("''"))
    op.add_column("changes", column)
