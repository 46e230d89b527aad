"""What an archive holds, and of which moment (docs/decisions/0084). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from meterline.event import Record, RecordKind, encode_pack
from meterline.limits import PARTITIONS_MAX
from meterline.ports import Unsuitable

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
CONTROL: Final = "control"
USAGE: Final = "usage"
LOG: Final = "log"


class ArchivedFile(msgspec.Struct, frozen=True):
    """A file of an archive: its path in the folder, its bytes as they lie there, and their digest
    (hex). `rows` are those that it holds.
    """

    path: str
    bytes: int
    rows: int
    sha256: str


class Stretch(msgspec.Struct, frozen=True):
    """What an archive has of a partition: records at offsets in [first, end). What lies before
    `counted` is in the sealed slices; the rest is counted after a restore.
    """

    first: int
    end: int
    counted: int


class ArchivedLog(msgspec.Struct, frozen=True):
    """The log that was being counted, and how far each partition is in the archive."""

    id: str
    number: int
    partitions: Sequence[Stretch]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The table of contents. It is written last: a folder without it is no archive."""

    format: int
    made_at: str  # RFC 3339
    version: str  # of the build that made it
    migration: int  # of the control store
    usage_id: str  # of the usage store
    usage_columns: Mapping[str, Sequence[str]]  # by table
    log: ArchivedLog
    files: Sequence[ArchivedFile]

    def file(self, path: str) -> ArchivedFile:
        """The entry of a path. Raises `Unsuitable`."""
        for one in self.files:
            if one.path == path:
                return one
        raise Unsuitable(f"the archive is not whole: its manifest lacks {path}. Use another one")


_manifests: Final = msgspec.json.Decoder(Manifest)


def encode(manifest: Manifest) -> bytes:
    """The text of `manifest.json`."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(text: bytes) -> Manifest:
    """Read `manifest.json`. Raises `Unsuitable` for what is none, or one of a later build."""
    try:
        known = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("format")
        if known is not None and msgspec.json.decode(known, type=int) > FORMAT:
            raise Unsuitable(
                f"the archive was made by a later build (format {bytes(known).decode()}): restore"
                " it with that build, or a newer one"
            )
        return _manifests.decode(text)
    except msgspec.DecodeError as error:
        raise Unsuitable(f"{MANIFEST} is damaged ({error}): use another archive") from error


def check_fits(manifest: Manifest, partitions: int, migration: int) -> None:
    """Raise `Unsuitable` where this build and these settings cannot hold the archive."""
    there = len(manifest.log.partitions)
    if not 1 <= there <= PARTITIONS_MAX:
        raise Unsuitable(f"{MANIFEST} is damaged: a log of {there} partitions. Use another archive")
    if partitions != there:
        raise Unsuitable(
            f"the archive has a log of {there} partitions, the settings say {partitions}: set"
            f" partitions to {there}"
        )
    if manifest.migration > migration:
        raise Unsuitable(
            f"the archive was made by build {manifest.version} with migration"
            f" {manifest.migration}, this build knows {migration}: restore it with that build, or"
            " a newer one"
        )


def first_of(begin: int, counted: int) -> int:
    """Where the archive of a partition begins: with the last record that was sealed, by which the
    log is known again, as far as the log has it. Where the log begins later, what it has no more
    are empty packs: they are put back.
    """
    return counted if begin > counted else max(begin, counted - 1, 0)


def expired(partition: int, begin: int, counted: int) -> Unsuitable:
    """Records that are in neither the log nor what was counted."""
    return Unsuitable(
        f"partition {partition}: the log begins at offset {begin}, but records from {counted}"
        " on are not counted in this backup: they expired before, or while it was made. Begin it"
        " anew, and set log_retention_days well above the time that a backup takes"
    )


def without_gaps(records: Iterable[Record], first: int, end: int) -> Iterator[Record]:
    """Records at every offset in [first, end): where the log used none, a pack without events. It
    changes no number, and a log on Kafka has no gaps.

    A filler is as old as the record before it (the first one, as the one behind it), so that slices
    end where they ended.
    """
    expected, before = first, None
    for record in records:
        model = before or record
        for offset in range(expected, record.offset):
            yield _like(model, offset)
        yield record
        expected, before = record.offset + 1, record
    if before is not None:
        for offset in range(expected, end):
            yield _like(before, offset)


def portions(records: Iterable[Record], records_max: int, bytes_max: int) -> Iterator[list[Record]]:
    """Records in their order, so many together, and of so many bytes, but for the last of them."""
    some: list[Record] = []
    size = 0
    for one in records:
        some.append(one)
        size += len(one.value)
        if len(some) == records_max or size >= bytes_max:
            yield some
            some, size = [], 0
    if some:
        yield some


def empty_record(partition: int, offset: int, append_ms: int, log_id: str) -> Record:
    """A pack without events."""
    return Record(partition, offset, append_ms, RecordKind.PACK, encode_pack([]), log_id)


def _like(other: Record, offset: int) -> Record:
    return empty_record(other.partition, offset, other.append_ms, other.log_id)
