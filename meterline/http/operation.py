"""What an operation of the API is: one declaration, from which its route, its checks and its part
of the OpenAPI document are made.

A declaration (`Operation`) says what may be sent and what comes back; `bind` gives it the function
that answers. Ids are stable for ever: clients are generated from them (contract section 9).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from aiohttp import web
from pydantic import BaseModel
from typing_extensions import TypeVar

from meterline.access import Principal, Scope
from meterline.http.shapes import NoParameters
from meterline.limits import CONTROL_BODY_BYTES_MAX
from meterline.problem import ProblemType

P = TypeVar("P", bound=BaseModel, default=NoParameters)
B = TypeVar("B", default=None)

JSON: Final = "application/json"
CSV: Final = "text/csv"


@dataclass(frozen=True, slots=True)
class PathName:
    """A name in a path: of what it is, and which texts can be one. Others are not found."""

    what: str  # "meter": for people, "There is no meter ..."
    description: str
    pattern: str  # of the whole name
    example: str


@dataclass(frozen=True, slots=True)
class Body(Generic[B]):
    """What a request carries: a model that is validated before the handler, nothing, or bytes that
    the handler reads itself.
    """

    contents: Mapping[str, Any] = field(default_factory=dict)  # media type to what it holds
    model: type[B] | None = None
    bytes_max: int = CONTROL_BODY_BYTES_MAX
    example: object = None
    required: bool = True


def json_body(model: type[B], example: object, *, media: tuple[str, ...] = (JSON,)) -> Body[B]:
    """A JSON text that is read as `model`; `example` is one that is accepted."""
    return Body(dict.fromkeys(media, model), model, example=example)


def optional_json_body(model: type[B], example: object) -> Body[B]:
    """A JSON text that may be left out, which means `{}`."""
    return Body({JSON: model}, model, example=example, required=False)


def raw_body(contents: Mapping[str, Any], example: object, bytes_max: int) -> Body[None]:
    """Bytes, by media type what they hold; the handler reads and judges them."""
    return Body(contents, None, bytes_max, example)


NO_BODY: Final[Body[None]] = Body()


@dataclass(frozen=True, slots=True)
class Answer:
    """One way to succeed. `shape` is a closed TypedDict, a list of them, or `str` for a table."""

    status: int
    description: str
    shape: Any = None  # None: no body
    media: str = JSON
    example: object = None
    headers: Mapping[str, str] = field(default_factory=dict)  # name to description


@dataclass(frozen=True, slots=True)
class Call(Generic[P, B]):
    """A request that was let in and read."""

    request: web.Request
    principal: Principal
    names: Mapping[str, str]  # of the path
    parameters: P
    body: B
    sent: bytes = b""  # the body as it was sent, inflated

    @property
    def namespace(self) -> str:
        """Whose things the call is about."""
        return self.principal.namespace

    @property
    def author(self) -> str:
        """Who is told as the author of a change that is asked for."""
        return self.principal.author


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[P, B]):
    """An operation as it is published. Its path is below the prefixes of its version.

    `problems` are those that not every operation has; `scope` None is open to all. Unless it says
    otherwise, an operation refuses query parameters, and reads no body.
    """

    id: str
    route: str  # method and path, such as "GET /meters/{meterId}"
    tag: str
    summary: str
    scope: Scope | None
    answer: Answer | tuple[Answer, ...]
    parameters: type[P] = NoParameters  # type: ignore[assignment] # the default of P
    headers: Mapping[str, str] = field(default_factory=dict)  # that it reads: name to description
    body: Body[B] = NO_BODY  # type: ignore[assignment] # the default of B
    problems: tuple[ProblemType, ...] = ()
    names: Mapping[str, PathName] = field(default_factory=dict)
    description: str = ""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All ways to succeed."""
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path below the prefixes."""
        return self.route.partition(" ")[2]

    def __post_init__(self) -> None:
        in_path = {part[1:-1] for part in self.path.split("/") if part.startswith("{")}
        assert in_path == set(self.names), f"{self.id}: {in_path} are in the path"

    @property
    def every_problem(self) -> tuple[ProblemType, ...]:
        """All that it may answer, those of every operation included, by status."""
        found = {ProblemType.INTERNAL, ProblemType.UNAVAILABLE, *self.problems}
        # every request line can be wrong, and each operation has query parameters or refuses them
        found.add(ProblemType.BAD_REQUEST)
        if self.scope is not None:
            found |= {
                ProblemType.UNAUTHENTICATED,
                ProblemType.FORBIDDEN,
                ProblemType.RATE_LIMITED,
            }
        if self.names:
            found.add(ProblemType.NOT_FOUND)
        if self.body.contents:
            found |= {ProblemType.BODY_TOO_LARGE, ProblemType.UNSUPPORTED_CONTENT_TYPE}
        return tuple(sorted(found, key=lambda kind: (kind.status, kind.slug)))


Answering = Callable[[Call[P, B]], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Bound:
    """An operation and what answers it; made by `bind`, which knows their types."""

    operation: Operation[Any, Any]
    answer: Callable[[Call[Any, Any]], Awaitable[web.StreamResponse]]


def bind(operation: Operation[P, B], answer: Answering[P, B]) -> Bound:
    """The operation, answered by a function of its call."""
    return Bound(operation, answer)
