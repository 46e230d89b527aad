"""Offsets that the consumer group committed: they are borders of slices, move on while events are
counted, and are where a worker that was killed goes on.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import asyncpg
from aiokafka.admin import AIOKafkaAdminClient

from tests.faults.bench import Bench
from tests.faults.installation import PARTITIONS, Installation
from tests.faults.kills import Fault
from tests.journey.deadline import until
from tests.services.ready import postgres_dsn

# A slice is filled, which takes a starved machine a minute; its seal comes up to a minute later
# (decision 100); then it is committed.
MOVED_WITHIN_S: Final = 200.0


def killed_between(kills: int) -> Fault:
    """All aggregators die at once, between a commit and the next."""

    def fault(bench: Bench) -> None:
        product, reached = bench.product, dict.fromkeys(range(PARTITIONS), 0)
        for _ in range(kills):
            reached = _moved(product, reached)
            for slot in product.those("aggregator"):
                bench.bites.book("ran when it was killed", slot.kill())
                bench.kills["aggregator between commits"] += 1
            kept = committed(product)
            assert all(kept[n] >= reached[n] for n in reached), f"{kept} after {reached}"
            _are_borders(product, kept)
            for slot in product.those("aggregator"):
                slot.start()
            reached = kept
        bench.notes.append(f"committed offsets went on to {_moved(product, reached)}")

    return fault


def committed(product: Installation) -> dict[int, int]:
    """By partition; 0 where nothing is committed yet."""
    assert product.servers is not None, "embedded there is no group"
    return asyncio.run(_committed(product.servers.kafka.url, product.settings))


async def _committed(bootstrap: str, settings: Mapping[str, str]) -> dict[int, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(settings["METERLINE_CONSUMER_GROUP"])
    finally:
        await admin.close()
    none = dict.fromkeys(range(PARTITIONS), 0)
    return none | {place.partition: it.offset for place, it in found.items()}


def _moved(product: Installation, before: Mapping[int, int]) -> dict[int, int]:
    """What is committed, as soon as that is more in every partition."""
    found: dict[int, int] = {}

    def moved() -> bool:
        found.update(committed(product))
        return all(found[number] > offset for number, offset in before.items())

    try:
        until(f"committed offsets beyond {dict(before)}", MOVED_WITHIN_S, moved)
    except AssertionError as error:
        error.add_note(f"committed: {found}\n{product.words()}")
        raise
    return found


def _are_borders(product: Installation, offsets: Mapping[int, int]) -> None:
    borders = asyncio.run(_sealed(product.settings["METERLINE_CONTROL_URL"]))
    within = {it for it in offsets.items() if it not in borders}
    assert not within, f"committed in the middle of slices: {within}"


async def _sealed(url: str) -> set[tuple[int, int]]:
    """Partition and end of every sealed slice."""
    connection = await asyncpg.connect(postgres_dsn(url))
    try:
        rows = await connection.fetch("SELECT partition, offset_end FROM seals")
    finally:
        await connection.close()
    return {(partition, end) for partition, end in rows}
