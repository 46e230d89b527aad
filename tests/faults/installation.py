"""The distributed set-up, as the bench runs it: every role as a process that may die at any step,
on servers of its own.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.faults.labels import LEASE_VARIABLE, SLICE_VARIABLE
from tests.faults.proxy import CLICKHOUSE, POSTGRES, Mode, Protocol, Proxy
from tests.faults.slot import Slot, slot
from tests.journey.client import Server
from tests.journey.processes import run_command
from tests.journey.setups import LOOPBACK, NOTHING, command_of, fresh_database
from tests.nursery.forked import ROOT
from tests.services.service import Service

PARTITIONS: Final = 4
# Everything comes round in seconds. Whoever stands still for longer than a lease loses it.
PACE: Final[Mapping[str, str]] = {
    SLICE_VARIABLE: "400",  # rather than 65,536
    LEASE_VARIABLE: "8",
    "METERLINE_PRODUCE_DEADLINE_MS": "3000",
    "METERLINE_DELIVERY_TIMEOUT_S": "3",
    "METERLINE_FLUSH_INTERVAL_MS": "500",
    "METERLINE_RETRY_DELAYS_S": "[0,1,2,5,5,5,5,5,5,5]",
    "METERLINE_RETRY_EVERY_S": "5",
    "METERLINE_PROBE_PAUSE_S": "0.2",
}

# Place of a process: role of compose.yaml.
PLACES: Final[Mapping[str, str]] = {
    "gateway-1": "ingest",
    "gateway-2": "ingest",
    "aggregator-1": "aggregate",
    "aggregator-2": "aggregate",
    "aggregator-3": "aggregate",
    "dispatcher-1": "dispatch",
    "dispatcher-2": "dispatch",
    "control": "control",
}
STAND_INS: Final = frozenset({"aggregator-3", "dispatcher-2"})  # they run only now and then
JOINS_ANEW: Final = "aggregator-3"  # comes and goes: a member without a name
PROXIED: Final = ("aggregate", "dispatch")  # the others tell how it is, whatever happens to these


@dataclass(frozen=True, slots=True)
class Servers:
    """The three servers, which may be killed."""

    kafka: Service
    clickhouse: Service
    postgres: Service

    @property
    def all(self) -> tuple[Service, Service, Service]:
        """Each of them."""
        return (self.kafka, self.clickhouse, self.postgres)


@dataclass(frozen=True, slots=True, eq=False)
class Installation:
    """A running product. Without servers it is the embedded one: one process is everything."""

    folder: Path
    settings: Mapping[str, str]  # that all its processes share
    slots: Mapping[str, Slot]
    servers: Servers | None = None
    proxies: Mapping[str, Proxy] = field(default_factory=dict)

    def those(self, role: str) -> list[Slot]:
        """The processes of a role that always run: gateway, aggregator, dispatcher, control."""
        found = [self.slots[name] for name in self.always if name.startswith(role)]
        return found or list(self.slots.values())

    @property
    def always(self) -> list[str]:
        """Places of those that always run."""
        return [name for name in self.slots if name not in STAND_INS]

    @property
    def api(self) -> Server:
        """Where questions are answered."""
        return Server(self.those("control")[0].url)

    @property
    def status(self) -> Any:
        """How far everything is."""
        return self.api.get("/api/v3/metering/status").json

    def start(self, *names: str) -> None:
        """Start those named, or all that always run; returns when they are there."""
        for name in names or self.always:
            self.slots[name].start()
        for name in names or self.always:
            self.slots[name].ready()

    def caught_up(self) -> bool:
        """Whether all that the log holds is counted."""
        shown = self.status
        return bool(shown["caught_up"]) and not shown["lag_records"] and not shown["unavailable"]

    def mend(self) -> None:
        """Whoever should run, runs; proxies pass."""
        for proxy in self.proxies.values():
            proxy.be(Mode.PASS)
        for server in self.servers.all if self.servers is not None else ():
            server.start()
        for name, one in self.slots.items():
            if name in STAND_INS:
                one.stop()  # a member without a name that is killed is waited for
            else:
                one.start()

    def words(self) -> str:
        """The last words of every process, and how far everything is."""
        try:
            shown = str(self.status)
        except (OSError, HTTPException, AssertionError) as error:
            shown = repr(error)
        return f"--- status\n{shown}\n" + "\n".join(
            f"--- {name}\n{one.words()}"
            for name, one in self.slots.items()
            if one.service.log_path.exists()
        )


@contextmanager
def installed(
    servers: Servers, folder: Path, more: Mapping[str, str] = NOTHING
) -> Iterator[Installation]:
    """A distributed installation with a topic and databases of its own, migrated, not started;
    killed with the block. `more` settings are for every process of it.
    """
    name = f"faults_{secrets.token_hex(4)}"
    database = fresh_database(servers.postgres.url, name)
    clickhouse_url = servers.clickhouse.url.rstrip("/")
    shared = {
        "METERLINE_LOG_URL": f"kafka://{servers.kafka.url}",
        "METERLINE_USAGE_URL": f"{clickhouse_url}/{name}",
        "METERLINE_CONTROL_URL": database,
        "METERLINE_SECRET_KEY": secrets.token_hex(32),
        "METERLINE_LOG_TOPIC": name,
        "METERLINE_CONSUMER_GROUP": name,
        "METERLINE_PARTITIONS": str(PARTITIONS),
        "METERLINE_WEBHOOK_NETWORKS_ALLOWED": LOOPBACK,
        **PACE,
        **more,
    }
    folder = folder / name
    folder.mkdir()
    run_command(["migrate"], folder, {**shared, "PYTHONPATH": str(ROOT)})
    with ExitStack() as stack:
        proxies = {
            "clickhouse": stack.enter_context(_proxy(clickhouse_url, CLICKHOUSE).running()),
            "postgres": stack.enter_context(_proxy(database, POSTGRES).running()),
        }
        proxied = {
            "METERLINE_USAGE_URL": f"http://127.0.0.1:{proxies['clickhouse'].port}/{name}",
            "METERLINE_CONTROL_URL": _through(database, proxies["postgres"].port),
        }
        slots = {}
        for place, role in PLACES.items():
            own = shared | (proxied if role in PROXIED else {})
            if role == "aggregate" and place != JOINS_ANEW:
                own["METERLINE_INSTANCE_ID"] = place
            command = command_of(role)
            slots[place] = slot(place, command, folder, own)
        yield from _killed(Installation(folder, shared, slots, servers, proxies))


@contextmanager
def installed_alone(folder: Path, more: Mapping[str, str] = NOTHING) -> Iterator[Installation]:
    """The embedded installation, not started; killed with the block."""
    folder = folder / f"alone_{secrets.token_hex(4)}"
    shared = {**PACE, **more}
    slots = {"up": slot("up", ["up"], folder, shared)}
    yield from _killed(Installation(folder, shared, slots))


def _killed(made: Installation) -> Iterator[Installation]:
    try:
        yield made
    finally:
        for one in made.slots.values():
            one.kill()


def make_meters(api: Server, definitions: tuple[dict[str, object], ...]) -> None:
    """Define meters."""
    for definition in definitions:
        api.made("/api/v3/metering/meters", definition)


def _proxy(url: str, protocol: Protocol) -> Proxy:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return Proxy(parts.hostname, parts.port, protocol)


def _through(url: str, port: int) -> str:
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}127.0.0.1:{port}{parts.path}"
