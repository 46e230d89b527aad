"""The first schema, in the SQL file beside this one.

Its number is 0017, not 0001: before the first release there were seventeen migrations, which made
the same tables. So a store that was made by them needs nothing. A store that saw only some of them
is refused (`meterline migrate`).
"""

from pathlib import Path

from alembic import op

revision = "0017"
down_revision = None


def upgrade() -> None:
    """Make all tables of an empty store."""
    ddl = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    if op.get_bind().dialect.name == "postgresql":
        ddl = ddl.replace(" BLOB", " BYTEA")
    for statement in ddl.removesuffix(";\n").split(";\n"):
        op.execute(statement)
