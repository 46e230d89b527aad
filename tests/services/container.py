"""The three servers as containers, by testcontainers, where a Docker engine answers."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from tests.services.fetch import KAFKA_VERSION
from tests.services.kafka import CLUSTER_ID, NODE_SETTINGS
from tests.services.local import free_port
from tests.services.ready import clickhouse_problem, kafka_problem, postgres_problem
from tests.services.service import ServiceError

KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CLICKHOUSE_IMAGE = "clickhouse/clickhouse-server:26.7.3.19"
POSTGRES_IMAGE = "postgres:18.4"
START_WITHIN_S = 120.0
POLL_S = 0.2
PING_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Image:
    """What to run: an image, its settings and the one port that clients use."""

    name: str
    port: int
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ContainerService:
    """A server in a container with a fixed host port, so that its URL outlives a restart."""

    name: str
    url: str
    image: Image
    host_port: int
    problem: Callable[[], str | None]
    _container: DockerContainer | None = None
    _running: bool = False

    def start(self) -> None:
        """See `Service.start`."""
        if self._running:
            return
        if self._container is None:
            self._container = self.definition()
            self._container.start()
        else:
            self._container.get_wrapped_container().start()
        self._running = True
        deadline = time.monotonic() + START_WITHIN_S
        while (reason := self.problem()) is not None:
            if time.monotonic() > deadline:
                message = f"{self.name} in {self.image.name} does not serve: {reason}"
                raise ServiceError(message)
            time.sleep(POLL_S)

    def kill(self) -> None:
        """See `Service.kill`."""
        if self._container is not None and self._running:
            wrapped = self._container.get_wrapped_container()
            wrapped.kill()
            wrapped.wait()
            self._running = False

    def stop(self) -> None:
        """See `Service.stop`."""
        if self._container is not None:
            self._container.stop()
            self._container, self._running = None, False

    def definition(self) -> DockerContainer:
        """Return the container as testcontainers will start it."""
        container = DockerContainer(self.image.name)
        container.with_bind_ports(self.image.port, self.host_port)
        for key, value in self.image.environment.items():
            container.with_env(key, value)
        return container


def docker_answers() -> bool:
    """Is there a Docker engine to start containers with?

    Asked in a process of its own: the client leaks its socket when no engine is there, and warnings
    are errors in the tests.
    """
    ask = "from testcontainers.core.docker_client import DockerClient as D; D().client.ping()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", ask],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PING_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def docker_host() -> str:
    """Return the host name under which published ports are reached."""
    return str(DockerClient().host())


def container_kafka(host: str) -> ContainerService:
    """Return a broker with the settings of the local one."""
    port = free_port()
    settings = {
        **NODE_SETTINGS,
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "controller.quorum.voters": "1@localhost:9093",
    }
    environment = {f"KAFKA_{key.upper().replace('.', '_')}": v for key, v in settings.items()}
    environment["CLUSTER_ID"] = CLUSTER_ID
    image = Image(KAFKA_IMAGE, 9092, environment)
    url = f"{host}:{port}"
    return ContainerService("Kafka", url, image, port, partial(kafka_problem, url))


def container_clickhouse(host: str) -> ContainerService:
    """Return a server whose default user needs no password."""
    image = Image(CLICKHOUSE_IMAGE, 8123, {"CLICKHOUSE_SKIP_USER_SETUP": "1"})
    port = free_port()
    url = f"http://{host}:{port}"
    return ContainerService("ClickHouse", url, image, port, partial(clickhouse_problem, url))


def container_postgres(host: str) -> ContainerService:
    """Return a server whose user postgres needs no password."""
    image = Image(POSTGRES_IMAGE, 5432, {"POSTGRES_HOST_AUTH_METHOD": "trust"})
    port = free_port()
    url = f"postgresql+asyncpg://postgres@{host}:{port}/postgres"
    return ContainerService("PostgreSQL", url, image, port, partial(postgres_problem, url))
