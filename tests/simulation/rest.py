"""Whether a world has come to rest."""

from meterline.event import RecordKind
from tests.simulation.erasing.course import settled
from tests.simulation.world import World


def at_rest(world: World, since_ms: int) -> bool:
    """Whether everything of the log is counted, filled in and claimed, since an instant."""
    number, partitions = world.log.number, world.partitions
    ends = world.progress.flushed_ends(number, world.catalogue.version)
    if any(ends.get(n, -1) < world.log.end(n) for n in range(partitions)):
        return False
    if world.inbox.committed != world.inbox.ends():
        return False
    if world.catalogue.filling() or not _revised(world) or not settled(world):
        return False
    if world.outbox.open and not world.profile.wild_clocks:  # a lease may end in an hour there
        return False
    revisions = [meter.revision for meter in world.catalogue.meters]
    until = [world.progress.complete_until(number, partitions, r) for r in revisions]
    since_ms = 0 if world.profile.wild_clocks else since_ms
    return all(it is not None and it >= since_ms for it in until)


def unsealed(world: World) -> list[int]:
    """Partitions with records behind their last seal that hold anything."""
    found = []
    for number, kept in enumerate(world.log.partitions):
        seal = world.progress.last_seal(world.log.number, number)
        end = 0 if seal is None else seal.end
        held = (r for r in kept.records if r.kind is not RecordKind.MARK and r.value != b"[]")
        if any(record.offset >= end for record in held):
            found.append(number)
    return found


def _revised(world: World) -> bool:
    """Whether all is sealed and looked at, and what was found late is in a run."""
    if not world.late_is_revised:
        return True
    if unsealed(world):
        return False
    seals = [world.progress.last_seal(world.log.number, n) for n in range(world.partitions)]
    return world.late.at_rest({seal.partition: seal.end for seal in seals if seal is not None})
