"""Which server a test gets: the one that is named, else a container, else a local process."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from tests.services.clickhouse import local_clickhouse
from tests.services.container import (
    ContainerService,
    container_clickhouse,
    container_kafka,
    container_postgres,
    docker_answers,
    docker_host,
)
from tests.services.fetch import Say, clickhouse_engine, kafka_jars, postgres_with_tls
from tests.services.given import GivenService
from tests.services.kafka import local_kafka
from tests.services.local import LocalService
from tests.services.postgres import local_postgres
from tests.services.ready import (
    clickhouse_problem,
    kafka_problem,
    postgres_dsn,
    postgres_problem,
)
from tests.services.service import Service


@dataclass(frozen=True, slots=True)
class Choice:
    """The three ways to one server."""

    variable: str
    setting: str
    name: str
    problem: Callable[[str], str | None]
    in_container: Callable[[str], ContainerService]
    local: Callable[[Say], LocalService]


CHOICES: Final = {
    "kafka": Choice(
        "METERLINE_TEST_KAFKA",
        "METERLINE_LOG_URL",
        "Kafka",
        kafka_problem,
        container_kafka,
        local_kafka,
    ),
    "clickhouse": Choice(
        "METERLINE_TEST_CLICKHOUSE",
        "METERLINE_USAGE_URL",
        "ClickHouse",
        clickhouse_problem,
        container_clickhouse,
        local_clickhouse,
    ),
    "postgres": Choice(
        "METERLINE_TEST_POSTGRES",
        "METERLINE_CONTROL_URL",
        "PostgreSQL",
        postgres_problem,
        container_postgres,
        local_postgres,
    ),
}


def open_service(kind: str, say: Say, environment: Mapping[str, str] = os.environ) -> Service:
    """Return the server of this kind ("kafka", "clickhouse", "postgres"), not started yet.

    Raises:
        ServiceError: it cannot be had; the text says what to install or set.

    """
    choice = CHOICES[kind]
    given = environment.get(choice.variable)
    if given:
        url = client_url(kind, given)
        return GivenService(choice.name, url, choice.variable, partial(choice.problem, url))
    if _docker_answers():
        say(f"{choice.name}: starting a container")
        return choice.in_container(docker_host())
    return choice.local(say)


def fetch_ahead(say: Say, environment: Mapping[str, str] = os.environ) -> None:
    """Fetch what local processes will need, all at once. Where URLs are given or Docker answers,
    that is only the PostgreSQL that speaks TLS.
    """
    wanted = [postgres_with_tls]
    for kind, fetch in (("kafka", kafka_jars), ("clickhouse", clickhouse_engine)):
        if not environment.get(CHOICES[kind].variable) and not _docker_answers():
            wanted.append(fetch)
    with ThreadPoolExecutor(len(wanted)) as threads:
        for fetched in [threads.submit(fetch, say) for fetch in wanted]:
            fetched.result()


def client_url(kind: str, given: str) -> str:
    """Return a URL as the fixtures promise it, from any usual spelling of it."""
    if kind == "kafka":
        return given.removeprefix("kafka://")
    if kind == "postgres" and given.startswith(("postgresql://", "postgres://")):
        return f"postgresql+asyncpg://{given.split('://', 1)[1]}"
    return given


def setting_line(kind: str, url: str) -> str:
    """Return `METERLINE_<SETTING>=<url>` as the product reads it."""
    if kind == "kafka":
        url = f"kafka://{url}"
    return f"{CHOICES[kind].setting}={postgres_dsn(url)}"


@cache
def _docker_answers() -> bool:
    return docker_answers()
