"""SessionStore over SQL."""

from sqlalchemy import delete, select, update

from meterline.access import Session
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, insert
from meterline.backends.control_store.store import (
    SqlStore,
    fetch_one,
    reads,
    row_of,
    value_of,
    writes,
)
from meterline.backends.control_store.tables.access import sessions
from meterline.limits import SESSIONS_PER_KEY_MAX


class SqlSessionStore(SqlStore):
    """See `meterline.access.SessionStore`."""

    def __init__(self, database: Database, per_key_max: int = SESSIONS_PER_KEY_MAX) -> None:
        super().__init__(database)
        self._per_key_max = per_key_max

    @writes
    async def start_session(self, connection: Connection, session: Session) -> None:
        """See the port."""
        over = sessions.c.expires_at_ms <= session.created_at_ms
        await connection.execute(delete(sessions).where(over))
        row = row_of(session, sessions)
        same = sessions.c.token_hash == session.token_hash
        await connection.execute(delete(sessions).where(same))
        await connection.execute(insert(connection, sessions).values(row))
        newest = (
            select(sessions.c.token_hash)
            .where(sessions.c.key_id == session.key_id)
            .order_by(sessions.c.created_at_ms.desc(), sessions.c.token_hash)
            .offset(self._per_key_max)
        )
        beyond = list((await connection.execute(newest)).scalars())
        if beyond:
            await connection.execute(delete(sessions).where(sessions.c.token_hash.in_(beyond)))

    @reads
    async def session(self, connection: Connection, token_hash: bytes) -> Session | None:
        """See the port."""
        question = select(sessions).where(sessions.c.token_hash == token_hash)
        return await fetch_one(connection, question, lambda row: value_of(Session, row))

    @writes
    async def renew_session(
        self, connection: Connection, token_hash: bytes, expires_at_ms: int
    ) -> None:
        """See the port."""
        later = sessions.c.token_hash == token_hash, sessions.c.expires_at_ms < expires_at_ms
        statement = update(sessions).where(*later).values(expires_at_ms=expires_at_ms)
        await connection.execute(statement)

    @writes
    async def end_session(self, connection: Connection, token_hash: bytes) -> None:
        """See the port."""
        await connection.execute(delete(sessions).where(sessions.c.token_hash == token_hash))
