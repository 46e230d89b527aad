"""How endpoints fare, first tries before retries, and headers of reports."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_DUE = sa.text("due_at_ms IS NOT NULL")


def upgrade() -> None:
    """Make the table, and the index anew; endpoints that are there already were not heard of."""
    _endpoints()
    _claims()
    _headers()


def _endpoints() -> None:
    op.create_table(
        "report_endpoints",
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("endpoint", sa.Text, primary_key=True),
        sa.Column("last_success_at_ms", sa.BigInteger),
        sa.Column("failing_since_ms", sa.BigInteger),
        sa.Column("last_failure_at_ms", sa.BigInteger),
        sa.Column("outages", sa.Integer, nullable=False),
        sa.Column("places", sa.Integer),
        sa.Column("probe_at_ms", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
    )


def _claims() -> None:
    op.drop_index("ix_report_deliveries_due", "report_deliveries")
    op.create_index(
        "ix_report_deliveries_due",
        "report_deliveries",
        ["report_id", "state", "due_at_ms", "sequence"],
        sqlite_where=_DUE,
        postgresql_where=_DUE,
    )


def _headers() -> None:
    op.add_column("reports", sa.Column("headers_sealed", sa.LargeBinary))
    op.add_column(
        "reports",
        sa.Column("header_names", sa.Text, nullable=False, server_default=sa.text("'[]'")),
    )
