"""Changes of reports: retired signing secrets, definitions that change, deliveries sent again."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table of secrets and the columns; what is there already was never changed."""
    _secrets()
    _definitions()
    _replays()
    _lists()


def _secrets() -> None:
    op.create_table(
        "report_secrets",
        sa.Column("report_id", sa.Text, sa.ForeignKey("reports.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret_sealed", sa.LargeBinary, nullable=False),
        sa.Column("signs_until_ms", sa.BigInteger, nullable=False),
    )


def _definitions() -> None:
    op.add_column(
        "reports",
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    )
    op.add_column("reports", sa.Column("takeover_interval", sa.Text))
    op.add_column("reports", sa.Column("takeover_start_at_ms", sa.BigInteger))
    op.add_column("reports", sa.Column("takeover_at_ms", sa.BigInteger))
    op.execute("UPDATE reports SET updated_at_ms = created_at_ms")


def _replays() -> None:
    op.add_column(
        "report_deliveries",
        sa.Column("attempts_before", sa.Integer, nullable=False, server_default=sa.text("0")),
    )
    op.add_column("report_deliveries", sa.Column("replayed_at_ms", sa.BigInteger))


def _lists() -> None:
    decided = ["decided_at_ms", "id"]
    op.create_index("ix_report_runs_decided", "report_runs", ["namespace", *decided])
    op.create_index("ix_report_runs_decided_of_report", "report_runs", ["report_id", *decided])
    op.create_index("ix_report_deliveries_subject", "report_deliveries", ["run_id", "subject"])
