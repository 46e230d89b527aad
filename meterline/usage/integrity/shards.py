"""Several servers as one usage store (pure): which of them a partition of the log is on, and by
what each of them is known.

A partition stays on the server that it was given first: so no row is ever on two, and none moves.
Servers are told apart by their number, from 0 on: the order in which they were added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class Shards(Protocol):
    """Where partitions are, as the control store keeps it."""

    async def known(self) -> dict[int, int]:
        """The server of each partition that was given one."""
        ...

    async def place(
        self, held: Mapping[int, int], partitions: Iterable[int], servers: int
    ) -> dict[int, int]:
        """Give these partitions a server, unless they have one by now: the one that `held` says it
        has rows on, else as `placed` says. Then the same as `known`.
        """
        ...


def placed(known: Mapping[int, int], partitions: Iterable[int], servers: int) -> dict[int, int]:
    """A server for each partition that has none: each gets the server with the fewest, of several
    the first.
    """
    counts = [0] * servers
    for server in known.values():
        counts[server] += 1
    given: dict[int, int] = {}
    for partition in sorted(set(partitions) - known.keys()):
        given[partition] = counts.index(min(counts))
        counts[given[partition]] += 1
    return given


def id_of(store_id: str, server: int, servers: int) -> str:
    """What a server of the store is known by: where there is one, by the id of the store."""
    return store_id if servers == 1 else f"{store_id} {server + 1} of {servers}"


def store_of(found: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The id of the store that servers belong to, of what each is known by, in their order: none
    where all are new. One that is new among others was added, or lost what it had. One that was
    known when there were fewer goes on. Where they do not belong together, all that was found.
    """
    servers = len(found)
    stores = {
        one.partition(" ")[0] if _goes_on(one, server, servers) else ""
        for server, ids in enumerate(found)
        for one in ids
    }
    if len(stores) == 1 and "" not in stores:
        return tuple(stores)
    if servers == 1:
        return tuple(sorted(found[0]))
    return tuple(f"{one} (server {at})" for at, ids in enumerate(found, 1) for one in ids)


def _goes_on(one: str, server: int, servers: int) -> bool:
    store = one.partition(" ")[0]
    return any(one == id_of(store, server, then) for then in range(server + 1, servers + 1))
