"""SQL by name: the statements of the files here, each under its `-- name:` line."""

import re
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
# A changed fold must never meet half of a table after a power loss: money rests on these
# (docs/architecture.md, "The usage store").
_DURABLE: Final = (
    "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,"
    " min_compressed_bytes_to_fsync_after_merge = 1, old_parts_lifetime = 480"
)
# Parts below are of one file: nearly all are, of a table that says so.
_COMPACT: Final = str(1 << 40)
# A part is planned and opened by itself, and a large block is written as several. Nothing is added
# to a block, so the engine makes one part of them once they are so old, whatever their sizes.
_ONE_PART: Final = (
    "min_age_to_force_merge_seconds = 120, min_age_to_force_merge_on_partition_only = 1"
)
# A large merge holds buffers of all columns of all its parts at once, 120 MB. So it takes one
# column after another: a third of that, at the same cost (decision 87).
_BY_COLUMN: Final = "vertical_merge_algorithm_min_columns_to_activate = 1"
_CLAUSES: Final = {
    "{durable}": _DURABLE,
    "{compact}": _COMPACT,
    "{one_part}": _ONE_PART,
    "{by_column}": _BY_COLUMN,
}


def _load(name: str) -> dict[str, str]:
    text = files(__package__).joinpath(name).read_text("utf-8")
    parts = _NAME.split(text)[1:]
    for clause, meaning in _CLAUSES.items():
        parts = [part.replace(clause, meaning) for part in parts]
    return {
        key: body.strip().rstrip(";") for key, body in zip(parts[::2], parts[1::2], strict=True)
    }


TABLES: Final = _load("schema.sql")
QUERIES: Final = _load("queries.sql")
EVIDENCE: Final = _load("audit/evidence.sql")
