"""Servers that end by themselves while tests use them: the test says so with their last words, and
they are started again for the tests that follow. Else one crash is a hundred failures, and none of
them has its reason.
"""

from typing import Final

from tests.services.local import LocalService, fallen

SERVERS: Final = frozenset({"ClickHouse", "Kafka", "PostgreSQL"})


def words_of(service: LocalService) -> str:
    """That it ended, and what it said last."""
    return f"{service.name} ended with code {service.ended()}; its last words:\n" + (
        service.last_words()
    )


def started_again() -> list[str]:
    """What is to be said of servers that ended by themselves. They run again on return."""
    told = []
    for service in fallen():
        if service.name in SERVERS:
            told.append(words_of(service))
            service.kill()
            service.start()
    return told
