"""Tables of meters, and of how far the log was counted."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
)

from meterline.backends.control_store.tables.columns import (
    key,
    optional,
    partial_index,
    required,
    table,
)

# The version of the catalogue, in one row. A change of the catalogue updates this row first. So
# changes happen one after the other, and versions become visible in ascending order.
catalogue_version: Final = table(
    "catalogue_version",
    key("one", Integer, "Always 1."),
    required("version", BigInteger, "Grows with each change of what is counted."),
    CheckConstraint("one = 1", name="single_row"),
)

# Meters: what may change without counting events again. Deleted meters stay, because their rows in
# the usage store stay.
meters: Final = table(
    "meters",
    key("id", Text, "Id of the meter."),
    required("namespace", Text, "Namespace of the meter."),
    required("key", Text, "Name in the API; unique among live meters of a namespace."),
    required("name", Text, "Name for people."),
    required("description", Text, "Text for people; may be empty."),
    required("labels", Text, "JSON object of texts."),
    required("from_settings", Boolean, "Defined in the settings file; the API cannot change it."),
    required("created_version", BigInteger, "Catalogue version that created it; orders meters."),
    required("created_at_ms", BigInteger, "When it was created."),
    required("updated_at_ms", BigInteger, "When it was last changed."),
    optional("deleted_at_ms", BigInteger, "When it was deleted."),
    partial_index(
        "uq_meters_live_key", "namespace", "key", where="deleted_at_ms IS NULL", unique=True
    ),
)

# Revisions of meters: what is counted. Of each meter one revision is in force. At most one is
# filling: older events are counted for it, then it takes over.
meter_revisions: Final = table(
    "meter_revisions",
    key("revision", BigInteger, "Catalogue version that made it; unique over all meters."),
    required("meter_id", Text, "Its meter.", of="meters.id"),
    required("aggregation", Text, "Such as `sum`, `count`, `unique_count`."),
    required("event_type", Text, "Type of the events that it counts."),
    optional("value_property", Text, "Path of the value in an event; NULL where none is needed."),
    required("dimensions", Text, "JSON object: names of dimensions with their paths."),
    optional("events_from_ms", BigInteger, "Earlier events do not count; NULL: all count."),
    required(
        "state",
        Text,
        "A `RevisionState`, such as `filling` or `in_force`.",
        default="'in_force'",
    ),
    required("made_at_ms", BigInteger, "When it was made.", default="0"),
    optional("effective_from_ms", BigInteger, "First window it answers for; NULL: all windows."),
    optional("before_revision", BigInteger, "Revision that answers for the windows before."),
    optional("switched_at_ms", BigInteger, "When it came into force."),
    optional("ended_at_ms", BigInteger, "When it was superseded or discarded."),
    optional("left_at_ms", BigInteger, "Since when no events are counted for it."),
    Index("ix_meter_revisions_meter_id", "meter_id"),
    partial_index(
        "uq_meter_revisions_in_force", "meter_id", where="state = 'in_force'", unique=True
    ),
    partial_index("uq_meter_revisions_filling", "meter_id", where="state = 'filling'", unique=True),
)

# Logs that events were counted from, such as a Kafka topic.
logs: Final = table(
    "logs",
    key("number", Integer, "Short name of the log in other tables, from 1."),
    required("id", Text, "Identity of the log; another topic has another one."),
    required("partitions", Integer, "Number of partitions; it only grows."),
    optional(
        "firsts", Text, "JSON array: by partition, what the first record of the topic counts as."
    ),
    UniqueConstraint("id"),
)

# Logs that got more partitions: a row for each time.
log_growths: Final = table(
    "log_growths",
    key("log", Integer, "Number of the log."),
    key("partitions", Integer, "Number of partitions since then."),
    required("partitions_before", Integer, "Number of partitions until then."),
    required("first_offset", BigInteger, "What the first record of each new partition counts as."),
    required("begun_ms", BigInteger, "When it began."),
)

# Partitions that are counted up to the mark of a growth: behind it, events belong by its number.
log_marks: Final = table(
    "log_marks",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("partitions", Integer, "Number of partitions since that growth."),
    required("record_offset", BigInteger, "Offset of the mark; all below it is sealed."),
)

# Sealed slices of the log: all their events are counted in the usage store.
seals: Final = table(
    "seals",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("slice", BigInteger, "First offset of the slice."),
    required("offset_end", BigInteger, "Offset after the last one of the slice."),
    required("events", BigInteger, "Number of events, without duplicates."),
    required("catalogue", BigInteger, "Catalogue version that it was counted with."),
    required("append_ms", BigInteger, "Latest append time of the partition up to its end."),
    optional("digest", LargeBinary, "Digest of its last record; NULL in seals of old builds."),
    # Number of rows that the slice wrote to tables of the usage store, 0 in seals of old builds.
    # An audit compares them with what is there.
    required("rejects", BigInteger, "Rows in `rejects`.", default="0"),
    required("tallies", BigInteger, "Rows in `tallies`.", default="0"),
    required("members", BigInteger, "Rows in `members`.", default="0"),
    required("rejected", BigInteger, "Rows in `rejected`.", default="0"),
    optional("late", BigInteger, "Rows in the tables of late rows; NULL: of a build without them."),
)

# Seals of old slices, added up: a row for slices that follow each other. Their own rows are gone.
seal_sums: Final = table(
    "seal_sums",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("slice", BigInteger, "First offset of the first slice."),
    required("offset_end", BigInteger, "Offset after the last one of the last slice."),
    required("slices", BigInteger, "Number of slices."),
    required("events", BigInteger, "Number of events, without duplicates."),
    required("catalogue", BigInteger, "Oldest catalogue version that one was counted with."),
    required("begin_ms", BigInteger, "Latest append time up to the end of the first slice."),
    required("append_ms", BigInteger, "Latest append time up to the end of the last slice."),
    required("rejects", BigInteger, "Rows in `rejects`."),
    required("tallies", BigInteger, "Rows in `tallies`."),
    required("members", BigInteger, "Rows in `members`."),
    required("rejected", BigInteger, "Rows in `rejected`."),
    optional("late", BigInteger, "Rows in the tables of late rows; NULL where one is not known."),
)

# Sealed slices that differed when they were counted back once more; an audit can mend them.
slice_differences: Final = table(
    "slice_differences",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("slice", BigInteger, "First offset of the slice."),
    required("found_at_ms", BigInteger, "When it was counted back, the last time."),
    required(
        "differing", Text, "JSON: for each table its name, what was expected, what was found."
    ),
    optional(
        "mended_at_ms", BigInteger, "When an audit had written it anew; NULL: it still differs."
    ),
    partial_index(
        "ix_slice_differences_open", "log", "partition", "slice", where="mended_at_ms IS NULL"
    ),
)

# Backfill: up to where all sealed slices of a partition are counted for a revision.
fill_bounds: Final = table(
    "fill_bounds",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("revision", BigInteger, "Revision of a meter."),
    required("filled_end", BigInteger, "Slices before this offset are counted; 2**63-1: all are."),
)

# Backfill: slices behind that bound that were counted for a revision newer than their seals.
fill_marks: Final = table(
    "fill_marks",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("revision", BigInteger, "Revision of a meter."),
    key("slice", BigInteger, "First offset of the slice."),
)

# Backfill: how far a partition is, for people. A slice counts once for each revision that lacks it.
fill_progress: Final = table(
    "fill_progress",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    required("begun_ms", BigInteger, "When the present backfill began."),
    required("seen_ms", BigInteger, "When it last got on."),
    required("slices_filled", BigInteger, "Slices that were filled in since it began."),
    required("slices_left", BigInteger, "Slices that are still to be filled in."),
    required("events_filled", BigInteger, "New events in the slices that were filled in."),
    required("events_left", BigInteger, "New events in those that are left."),
)

# Partitions that a worker is about to take on: how far their seen stores are, for people.
catch_up_progress: Final = table(
    "catch_up_progress",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    required("begun_ms", BigInteger, "When it began."),
    required("seen_ms", BigInteger, "When it was last told."),
    required("keys", BigInteger, "Keys of events that are in."),
    required("keys_total", BigInteger, "Keys that were missing; 0: not known yet."),
)

# Up to which instant the usage of a partition is complete.
completeness: Final = table(
    "completeness",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("catalogue", BigInteger, "Catalogue version that it was counted with."),
    required("until_ms", BigInteger, "All events recorded before this instant are counted."),
)

# Up to which offset the events of a partition are in the usage store.
flushed: Final = table(
    "flushed",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("catalogue", BigInteger, "Catalogue version that they were counted with."),
    required("offset_end", BigInteger, "Offset after the last one that is stored."),
)

# Where the usage store has several servers: which of them a partition is on. It stays there.
usage_shards: Final = table(
    "usage_shards",
    key("partition", Integer, "Partition of the log, of whichever log."),
    required("server", Integer, "Number of the server, from 0 on: as they were added."),
)

# The usage store that this control store belongs to, in one row.
usage_store: Final = table(
    "usage_store",
    key("one", Integer, "Always 1."),
    required("id", Text, "Id of the usage store; another store is refused at start."),
    CheckConstraint("one = 1", name="single_row"),
)
