"""Signing secrets of reports in SQL: the current one, and those that a rotation has not ended yet.

Functions over a connection of one transaction.
"""

from sqlalchemy import delete, func, insert, select, update

from meterline.access import COMMAND, Action
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.reports.definitions import locked, tell
from meterline.backends.control_store.tables.access import changes
from meterline.backends.control_store.tables.reports import report_secrets, reports
from meterline.limits import SECRET_SHOWN_ONCE_MS, SIGNING_SECRETS_RETIRED_MAX
from meterline.problem import conflict, not_found
from meterline.report import Report, RetiredSecret
from meterline.window import rfc3339


async def rotate(
    connection: Connection,
    report_id: str,
    sealed: bytes,
    overlap_ms: int,
    now_ms: int,
    *,
    author: str = COMMAND,
) -> None:
    """Make a secret the current one; those before it sign until the overlap ends, or their own
    end comes. Raises `Problem`.
    """
    row = await locked(connection, report_id)
    if row is None:
        raise not_found("report", report_id)
    if row.signing_secret_sealed == sealed:
        return
    until_ms = now_ms + overlap_ms
    of_report = report_secrets.c.report_id == report_id
    await connection.execute(
        update(report_secrets)
        .where(of_report, report_secrets.c.signs_until_ms > until_ms)
        .values(signs_until_ms=until_ms)
    )
    ended = delete(report_secrets).where(of_report, report_secrets.c.signs_until_ms <= now_ms)
    await connection.execute(ended)
    if overlap_ms:
        await _retire(connection, report_id, row.signing_secret_sealed, until_ms)
    await connection.execute(
        update(reports).where(reports.c.id == report_id).values(signing_secret_sealed=sealed)
    )
    detail = "signing secret; the ones before sign no more"
    if overlap_ms:
        detail = f"signing secret; the one before signs until {rfc3339(until_ms)}"
    await tell(connection, row, Action.ROTATE, now_ms, author, detail)


async def newest_sealed(connection: Connection, most: int) -> list[bytes]:
    """The sealed current secrets of live reports, the newest report first."""
    question = (
        select(reports.c.signing_secret_sealed)
        .where(reports.c.deleted_at_ms.is_(None))
        .order_by(reports.c.created_at_ms.desc(), reports.c.id.desc())
        .limit(most)
    )
    return list((await connection.execute(question)).scalars())


async def _retire(connection: Connection, report_id: str, sealed: bytes, until_ms: int) -> None:
    question = select(
        func.count(), func.max(report_secrets.c.number), func.min(report_secrets.c.signs_until_ms)
    ).where(report_secrets.c.report_id == report_id)
    count, newest, first_end_ms = (await connection.execute(question)).one()
    if count >= SIGNING_SECRETS_RETIRED_MAX:
        raise conflict(
            f"{count} earlier secrets still sign deliveries; the next one ends at"
            f" {rfc3339(first_end_ms)}: wait until then, or rotate with an overlap of 0."
        )
    row = {
        "report_id": report_id,
        "number": (newest or 0) + 1,
        "secret_sealed": sealed,
        "signs_until_ms": until_ms,
    }
    await connection.execute(insert(report_secrets).values(row))


async def retired(connection: Connection, report_id: str, now_ms: int) -> list[RetiredSecret]:
    """Secrets from before that sign still, the newest first."""
    secrets = report_secrets.c
    rows = await connection.execute(
        select(secrets.secret_sealed, secrets.signs_until_ms)
        .where(secrets.report_id == report_id, secrets.signs_until_ms > now_ms)
        .order_by(secrets.number.desc())
    )
    return [RetiredSecret(row.secret_sealed, int(row.signs_until_ms)) for row in rows]


async def shown(
    connection: Connection, report: Report, now_ms: int, *, author: str = COMMAND
) -> None:
    """Tell that the secret is shown, unless that was told of this author a moment ago."""
    already = (
        select(changes.c.id)
        .where(
            changes.c.namespace == report.namespace,
            changes.c.subject_id == report.id,
            changes.c.at_ms > now_ms - SECRET_SHOWN_ONCE_MS,
            changes.c.action == Action.SHOW.value,
            changes.c.author == author,
        )
        .limit(1)
    )
    if (await connection.execute(already)).first() is None:
        await tell(connection, report, Action.SHOW, now_ms, author, "signing secret")
