"""Several ClickHouse servers, and a cluster of them in the configuration of each."""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services.clickhouse import local_clickhouse
from tests.services.local import LocalService, free_port

CLUSTER: Final = "both"
_REPLICA: Final = "<replica><host>127.0.0.1</host><port>{port}</port></replica>"
_CONFIG: Final = "<clickhouse><remote_servers>{clusters}</remote_servers>{more}</clickhouse>"


@dataclass(frozen=True, slots=True)
class Shards:
    """The servers in their order. Their configuration has `CLUSTER`, and three that are wrong."""

    servers: tuple[LocalService, ...]

    def urls(self, database: str) -> list[str]:
        """Of a database on each."""
        return [f"{server.url}/{database}" for server in self.servers]


@contextmanager
def shards(number: int = 2, more: str = "") -> Iterator[Shards]:
    """So many servers, which run; `more` is added to their configuration."""
    ports = [free_port() for _ in range(number)]
    each = [[port] for port in ports]
    clusters = {
        CLUSTER: each,
        "one": each[:1],
        "twice": [each[0], each[0]],
        "replicas": [ports, *each[1:]],
    }
    shown = "".join(f"<{name}>{''.join(map(_shard, of))}</{name}>" for name, of in clusters.items())
    with tempfile.TemporaryDirectory(prefix="shards-") as folder:
        config = Path(folder) / "config.xml"
        config.write_text(_CONFIG.format(clusters=shown, more=more))
        made = Shards(tuple(local_clickhouse(_say, config, port) for port in ports))
        try:
            with ThreadPoolExecutor(number) as threads:
                for begun in [threads.submit(server.start) for server in made.servers]:
                    begun.result()
            yield made
        finally:
            for server in made.servers:
                server.stop()


def _shard(ports: list[int]) -> str:
    return f"<shard>{''.join(_REPLICA.format(port=port) for port in ports)}</shard>"


def _say(words: str) -> None:
    sys.stderr.write(f"\nservices: {words}\n")
