"""Operations of the control API, and their handlers: each operation is declared at the method that
answers it.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from aiohttp import web

from control.reports.service import ReportService
from control.shapes.path_names import PATH_NAMES
from control.stores import Stores
from control.usage.admission import Asks
from meterline.http import operation as http
from meterline.http.operation import B, Bound, Call, P
from meterline.report import Report

_OPERATION: Final = "operation"  # the attribute of a method
_NAME: Final = re.compile(r"\{(\w+)\}")  # in a path
S = TypeVar("S")
Method = Callable[[S, Call[P, B]], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(http.Operation[P, B]):
    """An operation whose path's names are those of `PATH_NAMES`. It stands as a decorator at the
    method that answers it, whose call has its types, and has the tag of that method's class.
    """

    tag: str = ""
    asks: Asks | None = None  # for what is stored: only so many at once

    def __post_init__(self) -> None:
        names = {name: PATH_NAMES[name] for name in _NAME.findall(self.path)}
        object.__setattr__(self, "names", names)

    def __call__(self, method: Method[S, P, B]) -> Method[S, P, B]:
        """The method, marked."""
        setattr(method, _OPERATION, self)
        return method


class Handlers:
    """Methods that answer operations; `tag` is the chapter of the document that lists them."""

    _tag: ClassVar[str]

    def __init_subclass__(cls, tag: str = "") -> None:
        cls._tag = tag

    def bound(self) -> list[Bound]:
        """The operations with what answers them, in the order of the methods."""
        marked = {name: getattr(it, _OPERATION, None) for name, it in vars(type(self)).items()}
        return [
            Bound(replace(one, tag=self._tag), getattr(self, name))
            for name, one in marked.items()
            if one is not None
        ]


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
