"""Deliveries that could not be made: why, in words."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """A column of what is staged, and one of deliveries: those from before have their bytes."""
    op.add_column("report_bodies", sa.Column("failure", sa.Text))
    op.add_column("report_deliveries", sa.Column("failure", sa.Text))
