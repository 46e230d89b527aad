"""The room that the file of the embedded log takes on its disk."""

import sqlite3
from contextlib import suppress

from meterline.limits import (
    LOG_CONVERT_PAGES_MAX,
    LOG_FREE_SHARE,
    LOG_VACUUM_PAGES,
    LOG_VACUUM_PAGES_MIN,
)


def gave_back(connection: sqlite3.Connection) -> int:
    """Give free pages at the end of the file back to the disk; whether there are more to give.

    Pages that were trimmed are used again by new records. Only when a quarter of the file is free
    are others moved there: a log that is trimmed and written to alike would move them for nothing.
    """
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages < LOG_VACUUM_PAGES_MIN or free * LOG_FREE_SHARE < pages:
        return 0
    connection.execute(f"PRAGMA incremental_vacuum({LOG_VACUUM_PAGES})").fetchall()
    (after,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(free > after)  # a file of an older build gives nothing back


def gave_all_back(connection: sqlite3.Connection) -> int:
    """Give free pages back, however few; whether there are more to give."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    connection.execute(f"PRAGMA incremental_vacuum({LOG_VACUUM_PAGES})").fetchall()
    (after,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(0 < after < free)


def convert(connection: sqlite3.Connection) -> None:
    """Let a file of an older build give room back, too, where to write it anew is soon done."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if mode == 0 and pages <= LOG_CONVERT_PAGES_MAX:
        with suppress(sqlite3.OperationalError):  # a full disk: it goes on as it was
            connection.execute("VACUUM")
