"""Which server a test gets, and what it is told when it can have none."""

from collections.abc import Callable

import pytest

from tests.services.choose import client_url, open_service, setting_line
from tests.services.container import (
    CLICKHOUSE_IMAGE,
    ContainerService,
    container_clickhouse,
    container_kafka,
    container_postgres,
)
from tests.services.given import GivenService
from tests.services.local import free_port
from tests.services.service import ServiceError


def quiet(words: str) -> None:
    """Progress that no test expects."""
    pytest.fail(f"nothing should be fetched or started: {words}")


def test_a_url_that_is_given_wins() -> None:
    service = open_service("kafka", quiet, {"METERLINE_TEST_KAFKA": "kafka://broker:9092"})
    assert isinstance(service, GivenService)
    assert (service.name, service.url) == ("Kafka", "broker:9092")


def test_a_given_server_is_not_ours_to_end() -> None:
    given = {"METERLINE_TEST_CLICKHOUSE": f"http://127.0.0.1:{free_port()}"}
    service = open_service("clickhouse", quiet, given)
    service.stop()
    with pytest.raises(ServiceError, match="unset METERLINE_TEST_CLICKHOUSE"):
        service.kill()


def test_a_given_server_that_does_not_serve_is_named() -> None:
    service = GivenService("Kafka", "h:1", "METERLINE_TEST_KAFKA", lambda: "h:1: refused", 0.0)
    with pytest.raises(ServiceError, match=r"Kafka at h:1 .*METERLINE_TEST_KAFKA.* refused"):
        service.start()


@pytest.mark.parametrize(
    ("kind", "given", "client", "setting"),
    [
        ("kafka", "kafka://h:1", "h:1", "METERLINE_LOG_URL=kafka://h:1"),
        ("kafka", "h:1", "h:1", "METERLINE_LOG_URL=kafka://h:1"),
        ("clickhouse", "http://h:1", "http://h:1", "METERLINE_USAGE_URL=http://h:1"),
        (
            "postgres",
            "postgresql://u@h/d",
            "postgresql+asyncpg://u@h/d",
            "METERLINE_CONTROL_URL=postgresql://u@h/d",
        ),
        (
            "postgres",
            "postgresql+asyncpg://u@h/d",
            "postgresql+asyncpg://u@h/d",
            "METERLINE_CONTROL_URL=postgresql://u@h/d",
        ),
    ],
)
def test_urls_are_spelled_for_their_reader(
    kind: str, given: str, client: str, setting: str
) -> None:
    assert client_url(kind, given) == client
    assert setting_line(kind, client) == setting


@pytest.mark.parametrize("make", [container_kafka, container_clickhouse, container_postgres])
def test_a_container_has_a_port_of_its_own_that_its_url_names(
    make: Callable[[str], ContainerService],
) -> None:
    service = make("docker-host")
    assert service.host_port != make("docker-host").host_port
    assert f"docker-host:{service.host_port}" in service.url
    service.kill()
    service.stop()  # never started: nothing to do


def test_the_container_broker_says_where_it_is_reached() -> None:
    service = container_kafka("docker-host")
    environment = service.image.environment
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{service.url}"
    assert environment["KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"] == "0"


def test_images_are_pinned() -> None:
    assert CLICKHOUSE_IMAGE.split(":")[1].startswith("26.")
