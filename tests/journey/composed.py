"""The roles of deploy/compose.yaml, two of each behind its proxy: as local processes, or in
containers where a Docker engine answers. A test ends and starts each of them by its name, and sees
no difference.
"""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from tests.journey.client import Server
from tests.journey.processes import PROGRAM, why_silent
from tests.journey.setups import COMPOSED, Servers, SetUp, distributed, started, stopped
from tests.services.container import docker_answers
from tests.services.local import LocalService, free_port
from tests.services.service import ServiceError

CADDY: Final = PROGRAM.with_name("caddy")
DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
CADDYFILE: Final = DEPLOY / "compose/Caddyfile"
DRAIN: Final = {"METERLINE_DRAIN_S": "5"}  # as in compose.yaml
INGEST_PORT, CONTROL_PORT = 8888, 8889  # of the proxy
PROJECT: Final = "meterline-in-turn"  # none that somebody uses
SECRETS: Final = (
    "METERLINE_SECRET_KEY",
    "CLICKHOUSE_PASSWORD",
    "POSTGRES_PASSWORD",
    "GRAFANA_PASSWORD",
)
THIS_MACHINE: Final = "host.docker.internal"
WITHIN_THIS_MACHINE: Final = {
    "extra_hosts": [f"{THIS_MACHINE}:host-gateway"],
    "environment": {
        "METERLINE_WEBHOOK_NETWORKS_ALLOWED": "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
    },
}
UP_WITHIN_S: Final = 800.0  # images are fetched, and ours is built


class Composed(Protocol):
    """The roles on their way. Their names are those of the services in compose.yaml."""

    @property
    def ingest(self) -> Server:
        """The port of the proxy that takes events."""
        ...

    @property
    def control(self) -> Server:
        """The port of the proxy that answers everything else."""
        ...

    @property
    def listens_at(self) -> str:
        """The address of this machine at which a receiver is reached."""
        ...

    def reached(self, url: str) -> str:
        """The URL of a receiver of this machine, as the processes have to call it."""
        ...

    def stop(self, name: str) -> int:
        """Tell a process to stop; its exit code, once it has ended."""
        ...

    def kill(self, name: str) -> None:
        """End a process as kill -9 does."""
        ...

    def start(self, name: str) -> None:
        """Start a process that was ended; returns when it is ready."""
        ...

    def logs(self) -> str:
        """The last words of every process, for a failure's report."""
        ...


@dataclass(frozen=True, slots=True)
class Processes:
    """Local processes, and the proxy by its own file."""

    setup: SetUp
    ingest: Server
    control: Server
    listens_at: str = "127.0.0.1"

    def reached(self, url: str) -> str:
        """See `Composed.reached`."""
        return url

    def stop(self, name: str) -> int:
        """See `Composed.stop`."""
        return stopped(self.setup.processes[name])

    def kill(self, name: str) -> None:
        """See `Composed.kill`."""
        self.setup.processes[name].kill()

    def start(self, name: str) -> None:
        """See `Composed.start`."""
        self.setup.processes[name].start()

    def logs(self) -> str:
        """See `Composed.logs`."""
        return self.setup.logs()


@contextmanager
def as_processes(folder: Path, servers: Servers) -> Iterator[Processes]:
    """Local processes; of the proxy's file only the addresses differ."""
    with started(distributed(folder, servers, DRAIN, places=COMPOSED)) as setup:
        ports = {port: free_port() for port in (INGEST_PORT, CONTROL_PORT)}
        text = CADDYFILE.read_text()
        for port, here in ports.items():
            assert f"\n:{port} {{\n" in text
            text = text.replace(f"\n:{port} {{\n", f"\n:{here} {{\n")
        place = folder / "proxy"
        place.mkdir()
        (place / "Caddyfile").write_text(text)
        upstreams = {
            role: " ".join(setup.processes[f"{role}-{n}"].url.split("//")[1] for n in (1, 2))
            for role in ("ingest", "control")
        }
        ingest, control = (Server(f"http://127.0.0.1:{here}") for here in ports.values())
        proxy = LocalService(
            name="proxy",
            url=control.url,
            folder=place,
            command=[str(CADDY), "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
            problem=partial(why_silent, control.url),
            environment={"HOME": str(place)} | {it.upper(): at for it, at in upstreams.items()},
        )
        proxy.start()
        try:
            yield Processes(setup, ingest, control)
        finally:
            proxy.kill()


@dataclass(frozen=True, slots=True)
class Containers:
    """Containers of a project of their own. `more` is merged into compose.yaml."""

    more: Path
    given: Mapping[str, str]
    ingest: Server
    control: Server
    listens_at: str = "0.0.0.0"  # a bridge leads from the containers to this machine

    def reached(self, url: str) -> str:
        """See `Composed.reached`."""
        return url.replace(self.listens_at, THIS_MACHINE)

    def up(self) -> None:
        """Build the image and start everything but Prometheus and Grafana."""
        self._compose("up", "--build", "--detach", "--wait", "proxy", *COMPOSED)

    def down(self) -> None:
        """Leave nothing but the images."""
        self._compose("down", "--volumes", "--timeout", "1")

    def stop(self, name: str) -> int:
        """See `Composed.stop`."""
        self._compose("stop", name)
        container = self._compose("ps", "--all", "--quiet", name).strip()
        return int(self._docker("inspect", "--format", "{{.State.ExitCode}}", container))

    def kill(self, name: str) -> None:
        """See `Composed.kill`."""
        self._compose("kill", name)

    def start(self, name: str) -> None:
        """See `Composed.start`."""
        self._compose("up", "--detach", "--wait", "--no-deps", "--no-recreate", name)

    def logs(self) -> str:
        """See `Composed.logs`."""
        return self._compose("logs", "--no-color", "--tail", "40", *COMPOSED)

    def _compose(self, *arguments: str) -> str:
        files = ("--file", str(DEPLOY / "compose.yaml"), "--file", str(self.more))
        return self._docker("compose", "--project-name", PROJECT, *files, *arguments)

    def _docker(self, *arguments: str) -> str:
        done = subprocess.run(
            ["docker", *arguments],  # noqa: S607
            env={**os.environ, **self.given},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=UP_WITHIN_S,
        )
        if done.returncode != 0:
            message = f"`docker {' '.join(arguments)}` ended with {done.returncode}: {done.stderr}"
            raise ServiceError(message)
        return done.stdout


def merged() -> dict[str, Any]:
    """What compose.yaml does not say: whoever delivers may reach a receiver of this machine."""
    callers = [name for name in COMPOSED if name.startswith(("dispatch", "control"))]
    return {"services": dict.fromkeys(callers, WITHIN_THIS_MACHINE)}


@contextmanager
def in_containers(folder: Path) -> Iterator[Containers]:
    """Containers, which are removed with all that they hold."""
    more = folder / "more.yaml"
    more.write_text(json.dumps(merged()))
    ingest, control = (Server(f"http://127.0.0.1:{it}") for it in (INGEST_PORT, CONTROL_PORT))
    made = Containers(more, {name: secrets.token_hex(32) for name in SECRETS}, ingest, control)
    try:
        made.up()
        yield made
    finally:
        made.down()


def engine_composes() -> bool:
    """Whether a Docker engine answers, and the command has `compose`."""
    if not docker_answers():
        return False
    try:
        asked = ["docker", "compose", "version"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
