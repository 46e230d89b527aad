"""`meterline migrate --partitions`: the log gets more partitions while all processes run."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import click

from ingest.growth import begin_growth, set_marks
from meterline.backends.control_store.migrations.migrated import check_migrated
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.backends.kafka.growth import older_members
from meterline.backends.kafka.log import KafkaLog
from meterline.backends.kafka.topic import inspect_topic
from meterline.event import Layout
from meterline.limits import GROWTH_LOOK_S, GROWTH_TELL_S, GROWTH_WAIT_S
from meterline.ports import Unsuitable
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.adapters import CLOCK
from meterline.runtime.wiring.connections import kafka_security

# Nobody knows which there are: Kafka names aggregators only.
REPLACED: Final = (
    "All processes of the roles ingest, dispatch and control must run this release, too. Older ones"
    " do not notice the new partitions: gateways append where events count no more, and the others"
    " take usage for complete without these partitions"
)


async def grow(settings: Settings, stop: asyncio.Event, partitions: int) -> None:
    """Return when every partition is counted up to where it goes on by the new number. What was
    broken off goes on when it is called again. Raises `Unsuitable` with words, `Unavailable`.
    """
    if not settings.kafka_servers:
        raise Unsuitable(
            "an embedded log keeps its partitions: one process counts all of them, and more would"
            " not help it. To have more, move to servers (docs/backup.md)"
        )
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(settings, stack)
        await patience.wait("control", lambda: check_migrated(database))
        log = await patience.wait("log", lambda: _log(settings, stack))
        progress = SqlProgressStore(database)
        log.number = await patience.wait("control", lambda: progress.log_number(log.id))
        log.firsts = await patience.wait("control", lambda: progress.log_firsts(log.number))
        await _check_aggregators(settings)
        await _grown(log, progress, partitions, stop)


async def _check_aggregators(settings: Settings) -> None:
    """Raise `Unsuitable` while an aggregator of an older release runs: it would not seal at a mark,
    and would count what is behind it.
    """
    security = kafka_security(settings)
    where = settings.kafka_servers, settings.consumer_group
    older = await older_members(*where, security, settings.log_timeout_s)
    if older:
        raise Unsuitable(_replace_first(older, settings.consumer_group))


def _replace_first(older: Sequence[str], group: str) -> str:
    return (
        f"aggregators of an older release run at {', '.join(older)} (consumer group {group}):"
        f" replace them first. {REPLACED}"
    )


async def _log(settings: Settings, stack: AsyncExitStack) -> KafkaLog:
    """The log on a topic that has whatever number of partitions; closed with the stack."""
    security = kafka_security(settings)
    where = settings.kafka_servers, settings.log_topic
    found = await inspect_topic(*where, security, settings.log_timeout_s)
    if found.topic is None:
        raise Unsuitable(f"there is no topic {settings.log_topic}: run `meterline migrate` first")
    there = {"partitions": found.topic.partitions}
    log = await adapters.open_log(settings.model_copy(update=there), stack)
    assert isinstance(log, KafkaLog), "a topic holds it"
    return log


async def _grown(
    log: KafkaLog, progress: SqlProgressStore, partitions: int, stop: asyncio.Event
) -> None:
    click.echo(REPLACED)
    layout = await begin_growth(log, progress, partitions, CLOCK.now_ms())
    if not layout.uncounted(await progress.marks(log.number)):
        click.echo(f"the log has {partitions} partitions")
        return
    click.echo(f"the topic has {partitions} partitions: waiting until all gateways know of them")
    if await _stopped(stop, GROWTH_WAIT_S):
        return
    await set_marks(log, layout)
    click.echo(f"events go by {partitions} partitions: counting up to there")
    await _counted(progress, log.number, layout, stop)


async def _counted(
    progress: SqlProgressStore, log: int, layout: Layout, stop: asyncio.Event
) -> None:
    """Tell which partitions are behind, until none is."""
    shown: Sequence[int] = ()
    looks = round(GROWTH_TELL_S / GROWTH_LOOK_S)
    look = 0
    while left := layout.uncounted(await progress.marks(log)):
        if left != shown or not look % looks:
            shown = left
            numbers = ", ".join(map(str, left))
            click.echo(f"not counted up to there yet: partitions {numbers}")
        look += 1
        if await _stopped(stop, GROWTH_LOOK_S):
            return
    click.echo(
        f"done: the log has {layout.partitions} partitions. Set partitions to"
        f" {layout.partitions} in the settings when you next change them"
    )


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Whether it is told to stop within so many seconds: what is left to do goes on without it."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    click.echo("stopped: run the same command again to go on")
    return True
