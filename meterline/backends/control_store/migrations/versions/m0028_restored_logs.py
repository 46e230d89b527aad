"""A log that was restored into a topic goes on with the offsets that it had."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Logs that were never restored have none."""
    op.add_column("logs", sa.Column("firsts", sa.Text(), nullable=True))
