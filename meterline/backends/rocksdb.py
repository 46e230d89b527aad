"""`SeenStore` on RocksDB: one store per partition, the deduplication state as of a slice border
(docs/architecture.md, "Verdicts").

Keys lie in generations, each as long as the horizon by append time: a look-up reads the newest two,
and older ones leave whole. So removal follows the log and never the wall clock.
"""

import asyncio
import errno
import os
import shutil
import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import structlog
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from meterline.limits import (
    SEEN_ASIDE_MAX,
    SEEN_BUFFERED_KEYS_MAX,
    SEEN_CACHE_BYTES,
    SEEN_FILTER_PART_BYTES,
    SEEN_PAUSE_S,
    SEEN_TURN_KEYS,
    SEEN_WRITE_BUFFER_BYTES,
)
from meterline.ports import SeenDamaged, Unavailable, Unsuitable

_VALUE: Final = struct.Struct(">QQ8s")  # position, append_ms, check
_ROW: Final = struct.Struct(">16s24s")  # key, value
_FIRST: Final = struct.Struct(">16sQQ8s")
_FOR_A_PERSON: Final = (errno.EEXIST, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
_APPLIED: Final = b"meta:applied"  # generation prefixes are shorter than this and start with "g"
_NEWEST: Final = b"meta:newest"
_NUMBER: Final = struct.Struct(">Q")
_FILTER_RATIO: Final = 0.02  # of the write buffer: ten bits a key, as in the files

_DAMAGED: Final = ("Corruption", "Invalid argument")  # how RocksDB's words begin
_MISSING: Final = "No such file or directory"
_HELD: Final = "lock file"
_log: Final = structlog.get_logger("seen")

Seen = tuple[int, int, bytes]


class RocksSeenStore:
    """See `meterline.usage.SeenStore`.

    The folder is made where it is not there; one process owns it.
    """

    def __init__(self, folder: Path, horizon_ms: int, cache_bytes: int = SEEN_CACHE_BYTES) -> None:
        self.cache_bytes = cache_bytes  # of all stores of this process that are given this number
        own = folder / f"horizon-{horizon_ms}ms"
        with _disk_named():
            own.mkdir(parents=True, exist_ok=True)
        self._horizon_ms = horizon_ms
        self._folder = own
        self._durable = WriteOptions()
        self._durable.sync = True
        self._applied = self._newest = 0
        self._has_older = False
        self._buffered = 0  # keys that are in no file yet, about
        self._store = _opened(own, cache_bytes)
        try:
            with _damage_named(own):
                self._applied = self._number(_APPLIED)
                self._newest = self._number(_NEWEST)
                self._has_older = self._holds(self._newest - 1)
        except SeenDamaged as error:
            self._store.close()
            _set_aside(own, str(error))
            self._applied = self._newest = 0
            self._store = _opened(own, cache_bytes)
        except BaseException:
            self._store.close()  # else nobody can open it
            raise
        for left in folder.glob(f"{own.name}.bulk-*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)  # the next start tries again

    def _number(self, name: bytes) -> int:
        stored = self._store.get(name)
        return _NUMBER.unpack(stored)[0] if stored is not None else 0

    def _holds(self, generation: int) -> bool:
        """Whether a generation has any key: a look-up that finds nothing is then spared."""
        if generation < 0:
            return False
        first = next(iter(self._store.keys(from_key=_prefix(generation))), b"")
        return isinstance(first, bytes) and first.startswith(_prefix(generation))

    @property
    def applied(self) -> int:
        """Every record below this offset is in."""
        return self._applied

    @property
    def newest(self) -> int:
        """The number of the newest generation."""
        return self._newest

    def generation_of(self, append_ms: int) -> int:
        """The number of the generation of a key."""
        return append_ms // self._horizon_ms

    def get_many(self, keys: Sequence[bytes]) -> list[Seen | None]:
        """The latest position per key; newer generations win."""
        found = self._generation(self._newest, keys)
        if self._has_older and None in found:
            missing = [key for key, value in zip(keys, found, strict=True) if value is None]
            older = iter(self._generation(self._newest - 1, missing))
            found = [next(older) if value is None else value for value in found]
        return [None if value is None else _VALUE.unpack(value) for value in found]

    def _generation(self, generation: int, keys: Sequence[bytes]) -> list[bytes | None]:
        prefix = _prefix(generation)
        with _damage_named(self._folder):
            return list(self._store.get([prefix + key for key in keys]) or ())

    def apply(self, keys: bytes, applied: int) -> None:
        """Keys in order of position, and the offset below which all is in; one synced batch."""
        batch = WriteBatch(raw_mode=True)
        put, newest = batch.put, self._newest
        for generation, part in by_generation(keys, self._horizon_ms):
            newest, prefix = max(newest, generation), _prefix(generation)
            for key, value in _ROW.iter_unpack(part):
                put(prefix + key, value)
        if newest > self._newest:
            if self._applied:  # for a fresh store it is not worth it: it takes the filter away
                batch.delete_range(b"g", _prefix(max(newest - 1, 0)))
            batch.put(_NEWEST, _NUMBER.pack(newest))
        batch.put(_APPLIED, _NUMBER.pack(max(applied, self._applied)))
        with _damage_named(self._folder):
            self._store.write(batch, self._durable)
        if newest > self._newest:
            self._newest = newest
            with _damage_named(self._folder):
                self._has_older = self._holds(newest - 1)
        self._applied = max(applied, self._applied)
        self._buffered += len(keys) // _ROW.size
        if self._buffered >= SEEN_BUFFERED_KEYS_MAX:
            self._buffered = 0
            with _damage_named(self._folder):
                self._store.flush(wait=False)

    def bulk(self) -> "RocksBulk":
        """See the port: sorted files are made beside the store, and taken in together."""
        with _disk_named():
            scratch = mkdtemp(prefix=f"{self._folder.name}.bulk-", dir=self._folder.parent)
        return RocksBulk(self, Path(scratch))

    def take_in(self, files: Sequence[str], newest: int, applied: int) -> None:
        """Sorted files, one of which says up to where all is applied then."""
        moved = IngestExternalFileOptions()
        moved.set_move_files(True)
        with _disk_named():  # a file that is not there is none of the store's
            for file in files:
                Path(file).stat()
        with _damage_named(self._folder):
            self._store.ingest_external_file(list(files), moved)
            if newest > self._newest and self._applied:  # if that is lost, look-ups do not see it
                batch = WriteBatch(raw_mode=True)
                batch.delete_range(b"g", _prefix(max(newest - 1, 0)))
                self._store.write(batch, self._durable)
            self._newest = max(newest, self._newest)
            self._has_older = self._holds(self._newest - 1)
        self._applied = max(applied, self._applied)

    def close(self) -> None:
        """Close the files; another process may open them then."""
        self._store.close()

    def discard(self) -> None:
        """See the port: the folder is kept under another name."""
        self._store.close()
        _set_aside(self._folder, "a read found damage")


class RocksBulk:
    """See `meterline.usage.SeenBulk`. Files are written in threads, a portion at a time."""

    def __init__(self, store: RocksSeenStore, scratch: Path) -> None:
        self._store = store
        self._scratch = scratch
        self._files: list[str] = []
        self._newest = 0

    async def add(self, keys: bytes) -> None:
        """Write keys into a file of their own."""
        if keys:
            generation = self._store.generation_of(_FIRST.unpack_from(keys)[2])
            self._newest = max(self._newest, generation)
            await _in_thread(lambda: self._write(_prefix(generation), _ROW.iter_unpack(keys)))

    async def finish(self, applied: int) -> None:
        """Take all files in, in one step of the store's own."""
        newest, known = max(self._newest, self._store.newest), max(applied, self._store.applied)
        meta = [(_APPLIED, _NUMBER.pack(known)), (_NEWEST, _NUMBER.pack(newest))]

        def work() -> None:
            self._write(b"", iter(meta))
            self._store.take_in(self._files, newest, known)

        await _in_thread(work)
        self.give_up()

    def give_up(self) -> None:
        """Remove what is left of the files."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _write(self, prefix: bytes, rows: Iterator[tuple[bytes, ...]]) -> None:
        path = str(self._scratch / f"{len(self._files):06d}.sst")
        with _disk_named():
            writer = SstFileWriter(options=_options(self._store.cache_bytes))
            writer.open(path)
            for number, (key, value) in enumerate(rows, 1):
                writer[prefix + key] = value
                if not number % SEEN_TURN_KEYS:
                    time.sleep(SEEN_PAUSE_S)
            _synced(path)
            writer.finish()  # synced too, but nobody else gets the interpreter meanwhile
        self._files.append(path)


def _synced(path: str) -> None:
    """Bring to disk what is written of a file, while others go on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(handle)
    finally:
        os.close(handle)


async def _in_thread(work: Callable[[], None]) -> None:
    """Whoever is cancelled meanwhile waits for the thread: it holds the files."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def by_generation(keys: bytes, horizon_ms: int) -> Iterator[tuple[int, memoryview]]:
    """Rows in order of position, cut where their generation changes: append times do not step
    back.
    """
    whole, count, at = memoryview(keys), len(keys) // _ROW.size, 0

    def generation_of(number: int) -> int:
        append_ms: int = _FIRST.unpack_from(whole, number * _ROW.size)[2]
        return append_ms // horizon_ms

    while at < count:
        generation = generation_of(at)
        end = bisect_right(range(count), generation, at, key=generation_of)
        yield generation, whole[at * _ROW.size : end * _ROW.size]
        at = end


def _opened(folder: Path, cache_bytes: int) -> Rdict:
    """The store in a folder; one that is damaged is set aside, for it can be rebuilt."""
    options = _options(cache_bytes)
    # Options alone are not enough: where a store is there already, the library takes what its file
    # of options says. That leaves out filters, and gives it a cache of its own.
    families = {"default": options}
    try:
        with _damage_named(folder):
            return Rdict(str(folder), options, families)
    except SeenDamaged as error:
        _set_aside(folder, str(error))
    return Rdict(str(folder), options, families)


def _set_aside(folder: Path, reason: str) -> None:
    names = [folder.with_name(f"{folder.name}.damaged-{n + 1}") for n in range(SEEN_ASIDE_MAX)]
    with _disk_named():
        aside = next((name for name in names if not name.exists()), names[-1])
        if aside.exists():
            shutil.rmtree(aside)  # the first ones tell more about the cause
        folder.rename(aside)
        folder.mkdir()
    _log.warning(
        "seen_store_damaged",
        action="set aside; it is rebuilt from the usage store, counting stays exact",
        kept_as=str(aside),
        reason=reason,
    )


@contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """RocksDB's errors, which the library raises without a type of their own, as ours."""
    try:
        yield
    except Exception as error:
        text = _first_line(error)
        if _HELD in text:
            message = f"another process uses the seen store in {folder}: stop it"
            raise Unsuitable(message) from error
        if text.startswith(_DAMAGED) or _MISSING in text:
            raise SeenDamaged(f"seen store: {text}") from error
        raise Unavailable(f"seen store: {text}") from error


@contextmanager
def _disk_named() -> Iterator[None]:
    """Errors of files that are no part of a store yet: nothing of the store is damaged. A full disk
    gets room again, and whoever waits goes on; a place that cannot be used needs a person.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FOR_A_PERSON:
            raise
        raise Unavailable(f"seen store: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _prefix(generation: int) -> bytes:
    return b"g" + generation.to_bytes(4, "big")


@cache
def _blocks(cache_bytes: int) -> Cache:
    """Of all partitions of this process: one that is looked up more gets more of it."""
    return Cache(cache_bytes)


def cached_bytes(cache_bytes: int) -> int:
    """What the cache of this size holds, of all partitions of this process."""
    return int(_blocks(cache_bytes).get_usage())


def _options(cache_bytes: int) -> Options:
    table = BlockBasedOptions()
    table.set_bloom_filter(10, block_based=False)
    table.set_block_cache(_blocks(cache_bytes))
    # Else filters and indexes are held beside it, without a bound: 1.6 bytes a key. In parts: where
    # they do not fit, a look-up reads 4 kB of a filter, not all of it.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(SEEN_FILTER_PART_BYTES)
    table.set_pin_top_level_index_and_filter(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - the library's own signature
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(SEEN_WRITE_BUFFER_BYTES)
    # A slice is a file: twice as many as wait by default are as much to merge as they are then.
    options.set_level_zero_file_num_compaction_trigger(8)
    # Nearly every look-up finds nothing: the filter spares the search of what is in memory too.
    options.set_memtable_prefix_bloom_ratio(_FILTER_RATIO)
    options.set_memtable_whole_key_filtering(True)
    # Keys and checks are random bytes; what lies between them spares a quarter of the file.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    return options
