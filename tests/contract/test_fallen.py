"""A server that ends by itself is told of once, and runs again."""

import os
import signal

from tests.journey.deadline import until
from tests.services.fallen import started_again, words_of
from tests.services.local import fallen
from tests.services.postgres import local_postgres

WITHIN_S = 60.0


def test_a_server_that_ends_by_itself_is_told_of_once_and_runs_again() -> None:
    server = local_postgres(_quiet)
    server.start()
    try:
        assert started_again() == []
        os.kill(server.pid, signal.SIGKILL)
        until("it ends", WITHIN_S, lambda: fallen() or None)
        assert fallen() == [server]
        told = words_of(server)
        assert told.startswith(f"PostgreSQL ended with code {-signal.SIGKILL}; its last words:\n")
        assert started_again() == [told]
        assert server.problem() is None
        assert fallen() == []
    finally:
        server.stop()


def _quiet(words: str) -> None:
    """Nothing is fetched that would take long."""
