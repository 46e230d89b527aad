"""Windows: half-open spans of time. Stored windows are one minute, by event time, as integer
minutes of UTC. With them instants as text, and waits between tries.

Hours, days, months and time zones are made of them at query time (docs/architecture.md, "Tallies").
"""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from meterline.limits import (
    MINUTES_REMEMBERED_MAX,
    WORKER_BACKOFF_MAX_S,
    WORKER_BACKOFF_MIN_S,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WindowSize(StrEnum):
    """Sizes that a query can ask for (v1 spelling; v3 says PT1M, PT1H, P1D, P1M)."""

    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"


ISO_SIZES: Final = {
    "PT1M": WindowSize.MINUTE,
    "PT1H": WindowSize.HOUR,
    "P1D": WindowSize.DAY,
    "P1M": WindowSize.MONTH,
}


# Files beside the zones of the IANA database: what the machine is set to, and zones of other kinds.
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})
_NO_ZONE_STARTS: Final = ("/", ".", "posix/", "right/")


def zone_named(name: str) -> ZoneInfo:
    """The zone of an IANA name, the same on every machine. Raises `ValueError` with words for one
    that does not exist.
    """
    try:
        if not name or name in _NO_ZONES or name.startswith(_NO_ZONE_STARTS):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        message = f"{name!r} is no IANA time zone, such as Europe/Berlin"
        raise ValueError(message) from error


def window_starts(first_ms: int, last_ms: int, size: WindowSize, zone: ZoneInfo) -> list[int]:
    """Starts of the windows of `size` in `zone` that cover [first_ms, last_ms], and the end of the
    last.

    So n windows give n + 1 ascending instants, the first at or before `first_ms`, the last after
    `last_ms`. A day is one local day, of 23 to 25 hours. An hour is 60 minutes and ends on the
    hour of the zone; an hour that a clock change repeats is two windows. Where the clock moves by
    half an hour, the window behind the change is 30 minutes long, up to the next full hour. Whoever
    asks bounds the span.
    """
    local = datetime.fromtimestamp(first_ms // 1000, zone)
    if size is WindowSize.MONTH:
        local = local.replace(day=1)
    starts = [_midnight_ms(local, zone)]
    while starts[-1] <= last_ms:
        starts.append(_next_start_ms(starts[-1], size, zone))
    covering = sum(1 for start in starts if start <= first_ms) - 1
    return starts[covering:]


def _next_start_ms(start_ms: int, size: WindowSize, zone: ZoneInfo) -> int:
    if size is WindowSize.MINUTE:
        return start_ms + MINUTE_MS
    if size is WindowSize.HOUR:
        past = datetime.fromtimestamp(start_ms // 1000, zone).minute
        return start_ms + (60 - past) * MINUTE_MS
    local = datetime.fromtimestamp(start_ms // 1000, zone)
    # Counted from noon, so that neither a skipped nor a repeated midnight can lead to another date.
    noon = datetime(local.year, local.month, local.day, 12, tzinfo=zone)
    if size is WindowSize.DAY:
        return _midnight_ms(noon + timedelta(days=1), zone)
    return _midnight_ms((noon.replace(day=1) + timedelta(days=32)).replace(day=1), zone)


def _midnight_ms(local: datetime, zone: ZoneInfo) -> int:
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone)
    return int(midnight.timestamp()) * 1000


def rfc3339(at_ms: int) -> str:
    """An instant as the API writes it: UTC, milliseconds only where there are some."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(tzinfo=None)
    fraction = f".{at_ms % 1000:03d}" if at_ms % 1000 else ""
    return f"{moment.isoformat()}{fraction}Z"


def rfc3339_ms(at_ms: int) -> str:
    """An instant with milliseconds always, as the contract's reports show it (2.2)."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{at_ms % 1000:03d}Z"


# RFC 3339, section 5.6, which allows small letters, a space and second 60; and offsets without a
# colon, as `%z` writes them in most languages. No week dates, no commas, no missing seconds.
_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d):(\d\d)(\.\d+)?(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)",
    re.ASCII,
)
_LAST_OF_MINUTE: Final = "59.999"
_USUAL_CHARS: Final = len("2026-01-31T12:34:56.789Z")  # as most events have it


def parse_instant(text: str) -> int:
    """Unix milliseconds of an RFC 3339 timestamp with an offset; what is finer is cut off.

    A leap second, 23:59:60 in UTC, is the last millisecond of its minute: it stays in its day and
    month. Raises `ValueError` with words.
    """
    if len(text) == _USUAL_CHARS and text[19] == "." and text[23] == "Z" and text.isascii():
        finer = text[17:19] + text[20:23]
        if finer.isdecimal() and finer < "60":
            try:
                return _minute_ms(text[:17]) + int(finer)
            except ValueError:
                pass  # the words for it are below
    return _parsed(text)


@lru_cache(MINUTES_REMEMBERED_MAX)
def _minute_ms(begin: str) -> int:
    """Of a text such as `2026-01-31T12:34:`."""
    return _parsed(f"{begin}00Z")


def _parsed(text: str) -> int:
    found = _INSTANT.fullmatch(text.upper())
    if found is None:
        message = f"{text!r} is no RFC 3339 timestamp, such as 2026-01-31T00:00:00Z"
        raise ValueError(message)
    date, minute, second, fraction, offset = found.groups()
    leap = second == "60"
    seconds = _LAST_OF_MINUTE if leap else f"{second}{fraction or ''}"
    try:
        moment = datetime.fromisoformat(f"{date}T{minute}:{seconds}{offset}")
    except ValueError as error:
        message = f"{text!r} is no RFC 3339 timestamp: there is no such date or time of day"
        raise ValueError(message) from error
    at_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if leap and (at_ms + 1) % DAY_MS:
        message = f"{text!r} is no RFC 3339 timestamp: second 60 is only at 23:59 in UTC"
        raise ValueError(message)
    return at_ms


class Backoff:
    """Waits that double from one failure to the next, up to a bound, in seconds; the first one is
    `first_s`. Every loop that tries again waits by it.
    """

    def __init__(
        self, first_s: float = WORKER_BACKOFF_MIN_S, longest_s: float = WORKER_BACKOFF_MAX_S
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._full_s = first_s

    def next_s(self, draw: float = 1.0) -> float:
        """The next wait. `draw`, from 0 to 1, is the part of it that is waited: a random one
        spreads those that failed together.
        """
        full_s = self._full_s
        self._full_s = min(2 * full_s, self._longest_s)
        return full_s * draw

    def reset(self) -> None:
        """Something worked."""
        self._full_s = self._first_s
