"""What the settings of a topic must be, for it to hold a log (pure)."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from meterline.limits import PACK_BYTES_MAX
from meterline.ports import Unsuitable

REPLICAS_WANTED: Final = 3
IN_SYNC_WANTED: Final = 2  # of three: one broker may be away, and an acknowledged record is on two
BATCH_BYTES_MAX: Final = 2 * 1024 * 1024  # `max.message.bytes`: a pack, and room that none needs
_ALWAYS: Final = {
    "message.timestamp.type": "LogAppendTime",
    "cleanup.policy": "delete",
    "unclean.leader.election.enable": "false",
}
_COMPRESSIONS: Final = frozenset({"producer", "zstd"})  # packs come in zstd


class Replicas(NamedTuple):
    """Brokers of the cluster, and how many of them have a copy of each record of the topic."""

    brokers: int
    copies: int


def of_new(brokers: int, retention_ms: int) -> tuple[int, dict[str, str]]:
    """Copies and settings of a topic that is made."""
    copies = min(REPLICAS_WANTED, brokers)
    return copies, {
        **_ALWAYS,
        "retention.ms": str(retention_ms),
        "max.message.bytes": str(BATCH_BYTES_MAX),
        "min.insync.replicas": str(IN_SYNC_WANTED if copies >= REPLICAS_WANTED else 1),
    }


def check(
    name: str, found: Mapping[str, str], replicas: Replicas, retention_ms: int
) -> Iterator[str]:
    """Words about what is not wrong, but costs something. Raises `Unsuitable` with what to set
    where the topic would lose events, or take none.
    """
    wrong = list(_wrong(found, replicas, retention_ms))
    if wrong:
        settings = ",".join(wrong)
        raise Unsuitable(
            f"topic {name} cannot hold a log until it is set to: {', '.join(wrong)}. Run"
            " `kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics"
            f" --entity-name {name} --add-config {settings}`, then start again"
        )
    return _hints(found, replicas)


def _wrong(found: Mapping[str, str], replicas: Replicas, retention_ms: int) -> Iterator[str]:
    for key, value in _ALWAYS.items():
        if found[key] != value:
            yield f"{key}={value}"
    if int(found["max.message.bytes"]) <= PACK_BYTES_MAX + PACK_BYTES_MAX // 10:
        yield f"max.message.bytes={BATCH_BYTES_MAX}"
    if 0 <= int(found["retention.ms"]) < retention_ms:
        yield f"retention.ms={retention_ms}"
    if int(found["retention.bytes"]) >= 0:
        yield "retention.bytes=-1"
    in_sync = _in_sync(found, replicas)
    if in_sync > replicas.copies:  # no append would ever be acknowledged
        yield f"min.insync.replicas={max(1, replicas.copies - 1)}"
    elif in_sync < IN_SYNC_WANTED and replicas.copies >= REPLICAS_WANTED:
        yield f"min.insync.replicas={IN_SYNC_WANTED}"


def _hints(found: Mapping[str, str], replicas: Replicas) -> Iterator[str]:
    in_sync, copies = _in_sync(found, replicas), replicas.copies
    if copies < min(REPLICAS_WANTED, replicas.brokers):
        yield (
            f"each record is on {copies} of {replicas.brokers} brokers: with a broker that is lost"
            f" for good, events can be lost. Reassign the topic's partitions to {REPLICAS_WANTED}"
            " brokers (kafka-reassign-partitions.sh)"
        )
    elif in_sync == copies > 1:
        yield (
            f"min.insync.replicas={in_sync} of {copies} copies: while one broker is away, no event"
            f" is taken in. Set min.insync.replicas={copies - 1}"
        )
    compression = found.get("compression.type", "producer")
    if compression not in _COMPRESSIONS:
        yield (
            f"compression.type={compression}: brokers compress each pack again. Set"
            " compression.type=producer"
        )


def _in_sync(found: Mapping[str, str], replicas: Replicas) -> int:
    """Brokers that are compatible with Kafka, and keep no such number, decide for themselves."""
    number = found.get("min.insync.replicas")
    return min(IN_SYNC_WANTED, replicas.copies) if number is None else int(number)
