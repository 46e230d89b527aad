"""What every way of getting a server promises to the tests."""

from typing import Protocol


class ServiceError(RuntimeError):
    """A server cannot be had; the text says why and what to do."""


class Service(Protocol):
    """One server with data that outlives a kill.

    All methods block; call them through `asyncio.to_thread` from a running loop.
    """

    @property
    def name(self) -> str:
        """Kafka, ClickHouse or PostgreSQL."""
        ...

    @property
    def url(self) -> str:
        """Where clients connect; the same before and after a restart."""
        ...

    def start(self) -> None:
        """Start, or start again on the same data, and return once it serves."""
        ...

    def kill(self) -> None:
        """End it as kill -9 does: nothing is flushed, nobody is told. The data stays."""
        ...

    def stop(self) -> None:
        """End it in good order and drop its data. Safe to call twice, or on one never started."""
        ...
