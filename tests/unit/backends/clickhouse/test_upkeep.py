"""What keeps the request of a long statement open."""

from meterline.backends.clickhouse.blocks.upkeep import PROGRESS_HEADERS_MAX, PROGRESS_MS, SETTINGS
from meterline.limits import USAGE_STORE_TIMEOUT_S

PYTHON_HEADERS_MAX = 100  # `http.client`, where no other module raised it
OTHER_HEADERS = 20


def test_the_longest_statement_has_no_more_headers_than_a_client_takes() -> None:
    longest_ms = SETTINGS["max_execution_time"] * 1_000
    assert SETTINGS["http_headers_progress_interval_ms"] == PROGRESS_MS
    assert longest_ms / PROGRESS_MS <= PROGRESS_HEADERS_MAX <= PYTHON_HEADERS_MAX - OTHER_HEADERS


def test_a_server_that_works_says_so_before_its_client_gives_up() -> None:
    assert PROGRESS_MS * 2 < USAGE_STORE_TIMEOUT_S * 1_000
