"""Servers that a run may kill, freeze and touch the disks of: local processes, nobody else's."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.faults.installation import Servers
from tests.services.clickhouse import local_clickhouse
from tests.services.kafka import local_kafka
from tests.services.postgres import local_postgres


@contextmanager
def own_servers() -> Iterator[Servers]:
    """All three, for the block."""
    with ExitStack() as stack:
        made = [make(_to_stderr) for make in (local_kafka, local_clickhouse, local_postgres)]
        for server in made:
            stack.callback(server.stop)
            server.start()
        yield Servers(*made)


def _to_stderr(words: str) -> None:
    sys.stderr.write(f"# {words}\n")
