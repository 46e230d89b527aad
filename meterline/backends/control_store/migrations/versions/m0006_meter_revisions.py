"""Revisions of meters that are proposed, in force, superseded."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the columns. The newest revision of each meter is in force, older ones are superseded,
    and left the catalogue long ago.
    """
    _columns()
    _history()
    for name, state in (
        ("uq_meter_revisions_in_force", "in_force"),
        ("uq_meter_revisions_filling", "filling"),
    ):
        where = sa.text(f"state = '{state}'")
        op.create_index(
            name,
            "meter_revisions",
            ["meter_id"],
            unique=True,
            sqlite_where=where,
            postgresql_where=where,
        )


def _columns() -> None:
    in_force, zero = sa.text("'in_force'"), sa.text("0")
    for column in (
        sa.Column("state", sa.Text, nullable=False, server_default=in_force),
        sa.Column("made_at_ms", sa.BigInteger, nullable=False, server_default=zero),
        sa.Column("effective_from_ms", sa.BigInteger),
        sa.Column("before_revision", sa.BigInteger),
        sa.Column("switched_at_ms", sa.BigInteger),
        sa.Column("ended_at_ms", sa.BigInteger),
        sa.Column("left_at_ms", sa.BigInteger),
    ):
        op.add_column("meter_revisions", column)


def _history() -> None:
    own = "FROM meters WHERE meters.id = meter_revisions.meter_id"
    op.execute(f"UPDATE meter_revisions SET made_at_ms = (SELECT created_at_ms {own})")  # noqa: S608 - no values
    op.execute("UPDATE meter_revisions SET switched_at_ms = made_at_ms")
    op.execute(
        "UPDATE meter_revisions SET state = 'superseded',"  # noqa: S608 - no values
        f" ended_at_ms = (SELECT updated_at_ms {own}), left_at_ms = (SELECT updated_at_ms {own})"
        " WHERE revision NOT IN (SELECT max(revision) FROM meter_revisions GROUP BY meter_id)"
    )
