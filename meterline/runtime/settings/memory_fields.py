"""What can be set of the memory of a process: the types of those fields of `Settings`."""

from typing import Annotated

from pydantic import Field

from meterline import limits

FlushEvents = Annotated[
    int,
    Field(
        ge=1,
        le=limits.SLICE_EVENTS_MAX,
        description="Number of events after which counts are written earlier. Change it to use "
        "less memory.",
        examples=[20_000],
    ),
]
FlushBytes = Annotated[
    int,
    Field(
        ge=1_048_576,
        le=limits.UNFLUSHED_BYTES_MAX,
        description="Bytes of memory, of events that wait to be written, after which counts are "
        "written earlier. Change it to use less memory.",
        examples=[16_777_216],
    ),
]
OpenSlicesBytes = Annotated[
    int,
    Field(
        ge=limits.OPEN_SLICES_PARTITION_BYTES,
        le=limits.OPEN_SLICES_BYTES_MAX,
        description="Bytes of memory for keys and tallies of slices that are not sealed. Beyond it "
        "an aggregator finishes one partition's slice after another, and counts are shown later. "
        "The default is 32 MiB for each partition, and at least 256 MiB. Change it together with "
        "the memory that the process may have.",
        examples=[536_870_912],
    ),
]
SeenCacheBytes = Annotated[
    int,
    Field(
        ge=limits.SEEN_CACHE_BYTES_MIN,
        le=limits.SEEN_CACHE_BYTES_MAX,
        description="Bytes of memory for looking up duplicates, of all partitions of a process. "
        "With 1.6 bytes for each event of two horizons, look-ups do not read filters from disk. "
        "Change it where disks are slow.",
        examples=[67_108_864],
    ),
]
