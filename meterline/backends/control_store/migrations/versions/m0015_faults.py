"""What fails by itself and what is out; claims in the order of ids; where each attempt went."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_DUE = sa.text("due_at_ms IS NOT NULL")


def upgrade() -> None:
    """Add the columns, and make the index anew; where attempts went until now is not known."""
    for name in ("faults", "alarms", "probes"):
        column = sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0"))
        op.add_column("report_endpoints", column)
    endpoint = sa.Column("endpoint", sa.Text, nullable=False, server_default=sa.text("''"))
    op.add_column("report_attempts", endpoint)
    op.drop_index("ix_report_deliveries_due", "report_deliveries")
    op.create_index(
        "ix_report_deliveries_due",
        "report_deliveries",
        ["report_id", "state", "due_at_ms", "id"],
        sqlite_where=_DUE,
        postgresql_where=_DUE,
    )
