"""The two set-ups as real processes: one `meterline up`, or the roles of deploy/compose.yaml."""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import asyncpg
import yaml
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, forked, role_process, run_command
from tests.services.local import Begin, LocalService, free_port
from tests.services.ready import postgres_dsn

COMPOSE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "deploy/compose.yaml").read_text()
)
# Processes of the distributed set-up: name here, service in compose.yaml.
PROCESSES = {
    "ingest": "ingest-1",
    "aggregate-1": "aggregate-1",
    "aggregate-2": "aggregate-2",
    "dispatch": "dispatch-1",
    "control": "control-1",
}
ROLES = ("ingest", "aggregate", "dispatch", "control")
# All of compose.yaml: two of each role.
COMPOSED = {f"{role}-{number}": f"{role}-{number}" for role in ROLES for number in (1, 2)}
INSTANCE_ID = "METERLINE_INSTANCE_ID"
DRAIN_S = "METERLINE_DRAIN_S"
PARTITIONS = "4"  # as embedded by default, so that both cut the load alike
LOOPBACK = "127.0.0.0/8"
NOTHING: Mapping[str, str] = MappingProxyType({})
METERLINE = (str(PROGRAM),)
ENDED_WITHIN_S = 120.0


def command_of(role: str) -> list[str]:
    """What a process of a role is given in compose.yaml."""
    command: list[str] = COMPOSE["services"][f"{role}-1"]["command"]
    return command


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the three servers are, as `tests/conftest.py` gives it."""

    kafka: str
    clickhouse: str
    postgres: str


@dataclass(frozen=True, slots=True, eq=False)
class SetUp:
    """A running product. `ingest` takes events, `control` answers everything else."""

    name: str
    folder: Path
    processes: Mapping[str, LocalService]
    ingest: Server
    control: Server
    inbox_topic: str = ""

    def start(self) -> None:
        """Start every process; returns when all are ready."""
        with ThreadPoolExecutor(len(self.processes)) as threads:
            for started in [threads.submit(one.start) for one in self.processes.values()]:
                started.result()

    def kill(self) -> None:
        """End every process as kill -9 does. Safe to call twice."""
        for process in self.processes.values():
            process.kill()

    def logs(self, chars: int = 3000) -> str:
        """The last words of every process, for a failure's report."""
        told = []
        for name, process in self.processes.items():
            with suppress(OSError):
                tail = process.log_path.read_text(errors="replace")[-chars:]
                told.append(f"--- {name}\n{tail}")
        return "\n".join(told)

    @property
    def status(self) -> Any:
        """How far everything is."""
        return self.control.get("/api/v3/metering/status").json


@contextmanager
def telling(setup: SetUp) -> Iterator[None]:
    """Whatever goes wrong in the block, what the processes said is told with it."""
    try:
        yield
    except BaseException as error:
        error.add_note(setup.logs())
        raise


@contextmanager
def started(setup: SetUp) -> Iterator[SetUp]:
    """It runs for the length of the block; why it does not start is told by its processes."""
    try:
        with telling(setup):
            setup.start()
        yield setup
    finally:
        setup.kill()


def embedded(
    folder: Path,
    more: Mapping[str, str] = NOTHING,
    program: Sequence[str] = METERLINE,
    begin: Begin = forked,
) -> SetUp:
    """Everything in one process and one folder, with no setting but its folder, its port and
    `more`.
    """
    settings = {"METERLINE_DATA_DIR": str(folder / "data"), **more}
    port = free_port()
    process = role_process("up", ["up"], folder / "up", port, settings, program, begin)
    server = Server(process.url)
    return SetUp("embedded", folder, {"up": process}, server, server)


def distributed(
    folder: Path,
    servers: Servers,
    more: Mapping[str, str] = NOTHING,
    *,
    with_inbox: bool = False,
    named: bool = True,
    migrated: bool = True,
    program: Sequence[str] = METERLINE,
    begin: Begin = forked,
    places: Mapping[str, str] = PROCESSES,
) -> SetUp:
    """Each role as a process of its own, with a fresh topic and fresh databases; `more` settings
    are for all of them. They are `migrated`, unless a restore is to make them. Aggregators have
    names of their own, unless not `named`. Of two gateways, or two of `control`, the first one is
    asked.
    """
    name = f"journey_{secrets.token_hex(4)}"
    as_composed = {
        "METERLINE_LOG_URL": f"kafka://{servers.kafka}",
        "METERLINE_USAGE_URL": f"{servers.clickhouse.rstrip('/')}/{name}",
        "METERLINE_CONTROL_URL": fresh_database(servers.postgres, name),
        "METERLINE_SECRET_KEY": secrets.token_hex(32),
        "METERLINE_ACCESS_MODE": "none",
        "METERLINE_PUBLIC_WITHOUT_KEYS": "true",
    }
    # What compose.yaml need not say: its containers do not share servers, ports or folders.
    shared = {
        "METERLINE_LOG_TOPIC": name,
        "METERLINE_CONSUMER_GROUP": name,
        "METERLINE_PARTITIONS": PARTITIONS,
        "METERLINE_WEBHOOK_NETWORKS_ALLOWED": LOOPBACK,
    }
    inbox_topic = f"{name}-inbox" if with_inbox else ""
    if with_inbox:
        asyncio.run(_make_topic(servers.kafka, inbox_topic))
        shared["METERLINE_INBOX_TOPICS"] = json.dumps({inbox_topic: "default"})
    _check_composed({*places.values(), "migrate"}, as_composed.keys())
    settings = {**as_composed, **shared, **more}
    if migrated:
        run_command(COMPOSE["services"]["migrate"]["command"], folder, settings)
    processes = {}
    for process, service in places.items():
        own = {"METERLINE_DATA_DIR": str(folder / process / "data")}
        if named and service.startswith("aggregate"):
            own[INSTANCE_ID] = process  # one that is killed has its partitions again at once
        command = COMPOSE["services"][service]["command"]
        processes[process] = role_process(
            process, command, folder / process, free_port(), settings | own, program, begin
        )
    first = {service: Server(processes[process].url) for process, service in places.items()}
    ingest, control = first["ingest-1"], first["control-1"]
    return SetUp("distributed", folder, processes, ingest, control, inbox_topic)


def _check_composed(services: Collection[str], known: Collection[str]) -> None:
    """They are set up as in compose.yaml, but for what a balancer needs: none asks them here."""
    for service in services:
        given = COMPOSE["services"][service]["environment"]
        more_here = {INSTANCE_ID} if service.startswith("aggregate") else set()
        assert given.keys() - {DRAIN_S} == {*known, *more_here}, service


async def _make_topic(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        settings = {"message.timestamp.type": "LogAppendTime"}  # an inbox has to have it
        await admin.create_topics([NewTopic(name, 2, 1, topic_configs=settings)])
    finally:
        await admin.close()


def fresh_database(postgres: str, name: str) -> str:
    """Make a database; its URL as the product takes it."""

    async def make() -> None:
        connection = await asyncpg.connect(postgres_dsn(postgres))
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()

    asyncio.run(make())
    return postgres_dsn(postgres, name)


def stopped(process: LocalService) -> int:
    """Tell a process to stop, as an operator does; its exit code, once it has ended. Its folder
    stays.
    """
    os.kill(process.pid, signal.SIGTERM)
    until(f"{process.name} ends", ENDED_WITHIN_S, lambda: process.ended() is not None)
    code = process.ended()
    process.kill()
    assert code is not None, process.name
    return code
