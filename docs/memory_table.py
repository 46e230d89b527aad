"""The table of memory in docs/operations.md, made from `meterline.limits` and the settings.

`python -m docs.memory_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from meterline import limits
from meterline.runtime.settings.fields import Settings

PAGE: Final = Path(__file__).with_name("operations.md")
NAME: Final = "memory"
MIB: Final = 1024 * 1024
ROLES: Final = ("ingest", "aggregate", "dispatch", "control")
DEFAULTS: Final = Settings(log_url="kafka://kafka:9092")
OWN_BYTES: Final = 160 * MIB  # measured: interpreter, libraries, connections of any role
KEY_BYTES: Final = 700  # of an API key at hand
BUFFERED_KEY_BYTES: Final = 128  # in RocksDB's write buffer
ROW_BYTES: Final = 600  # of a run, while it is read
WIDE_ROW_BYTES: Final = 300  # of the answer of a preview
COPIES: Final = 2  # of rows: as they are, and as they are sent


@dataclass(frozen=True, slots=True)
class Held:
    """What a role holds, what it follows from, and how much it is at most."""

    what: str
    follows: str
    roles: Mapping[str, int]


def _of(size: int, *roles: str) -> Mapping[str, int]:
    return dict.fromkeys(roles, size)


def held() -> Iterator[Held]:
    """Everything that is more than a few MiB."""
    yield Held("interpreter, libraries, connections", "measured", _of(OWN_BYTES, *ROLES))
    yield Held("request bodies", "limit", _of(limits.BODIES_BYTES_MAX, "ingest", "control"))
    pending = limits.PENDING_BYTES_MAX + limits.APPEND_QUEUE_BYTES_MAX
    yield Held("events on their way into the log", "limit", _of(pending, "ingest", "control"))
    keys = limits.KEYS_HELD_MAX * KEY_BYTES
    yield Held("API keys", "limit", _of(keys, "ingest", "control"))
    brought = limits.READ_BYTES_MAX + limits.FAUST_BUFFER_RECORDS_MAX * limits.PACK_BYTES_MAX
    yield Held("records that Kafka sent", "limit", _of(brought, "aggregate"))
    flushes = limits.UNFLUSHED_BYTES_MAX + COPIES * DEFAULTS.flush_bytes
    yield Held("counts that are being written", "`flush_bytes`", _of(flushes, "aggregate"))
    opened = DEFAULTS.open_slices_bytes
    yield Held("open slices", "`open_slices_bytes`", _of(opened, "aggregate"))
    yield Held("seen stores", "`seen_cache_bytes`", _of(DEFAULTS.seen_cache_bytes, "aggregate"))
    buffered = DEFAULTS.partitions * limits.SEEN_BUFFERED_KEYS_MAX * BUFFERED_KEY_BYTES
    buffered += COPIES * limits.SEEN_WRITE_BUFFER_BYTES
    yield Held("keys on their way to disk", "`partitions`", _of(buffered, "aggregate"))
    filled = limits.FILL_FOLDS_MAX * limits.OPEN_CELL_BYTES
    yield Held("backfill of new meters", "limit", _of(filled, "aggregate"))
    claimed = limits.CLAIMED_BYTES_MAX + limits.AHEAD_BYTES_MAX
    yield Held("bodies of deliveries", "limit", _of(claimed, "dispatch"))
    made = limits.SPOOL_MEMORY_BYTES + limits.RUN_ROWS_READ * ROW_BYTES
    yield Held("a run that is being made", "limit", _of(made, "dispatch"))
    shown = limits.PREVIEWS_AT_ONCE[0] * limits.PREVIEW_HELD_MAX * WIDE_ROW_BYTES
    yield Held("previews", "limit", _of(shown, "control"))
    yield Held("kept answers", "limit", _of(limits.BLOCK_CACHE_BYTES_MAX, "control"))


def rows() -> Iterator[str]:
    """The lines of the table: what, what it follows from, MiB of each role, and the sums."""
    yield f"| what is held, at most, in MiB | follows from | {' | '.join(ROLES)} |"
    yield f"|---|---|{'---|' * len(ROLES)}"
    sums = dict.fromkeys(ROLES, 0)
    for it in held():
        for role, size in it.roles.items():
            sums[role] += size
        yield f"| {it.what} | {it.follows} | {' | '.join(map(_shown, _each(it.roles)))} |"
    yield f"| **sum** | | {' | '.join(map(_shown, _each(sums)))} |"


def _each(roles: Mapping[str, int]) -> list[int]:
    return [roles.get(role, 0) for role in ROLES]


def _shown(size: int) -> str:
    return f"{round(size / MIB):,}" if size else ""


def made(page: str) -> str:
    """The page with the table as limits and settings have it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
