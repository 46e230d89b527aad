"""Handlers of operations: classes whose methods say by `answers` which operation each answers."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from control.reports.service import ReportService
from control.stores import Stores
from meterline.http.operation import B, Bound, Call, Operation, P
from meterline.report import Report

_OPERATION: Final = "operation"  # the attribute of a method
S = TypeVar("S")
Method = Callable[[S, Call[P, B]], Awaitable[web.StreamResponse]]


def answers(operation: Operation[P, B]) -> Callable[[Method[S, P, B]], Method[S, P, B]]:
    """Marks the method that answers an operation, whose call has the operation's types."""

    def mark(method: Method[S, P, B]) -> Method[S, P, B]:
        setattr(method, _OPERATION, operation)
        return method

    return mark


class Handlers:
    """Methods that answer operations."""

    def bound(self) -> list[Bound]:
        """The operations with what answers them, in the order of the methods."""
        operations = {name: getattr(it, _OPERATION, None) for name, it in vars(type(self)).items()}
        return [Bound(one, getattr(self, name)) for name, one in operations.items() if one]


class OfStores(Handlers):
    """Handlers that stand on the stores alone."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores


class OfReports(Handlers):
    """Handlers of reports and of what belongs to them."""

    def __init__(self, service: ReportService) -> None:
        self._service = service

    async def _found(self, call: Call[Any, Any]) -> Report:
        """The report that the path names. Raises `Problem` (not found)."""
        return await self._service.report(call.namespace, call.names["reportId"])
