"""Members of a body or an answer that may be left out, and are not null."""

from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from meterline.window import rfc3339

T = TypeVar("T")


class NotNull:
    """Marks `X | None` in a shape: None where the member is absent, while a null that is sent is
    refused, and published so.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "nullable", f"{source} cannot be None"
        inner: CoreSchema = schema["schema"]
        return inner


Maybe = Annotated[T | None, NotNull()]
"""A member that may be left out: None stands for it. In an answer it is `NotRequired` as well."""


def present(shown: T) -> T:
    """An answer without the members that are None."""
    assert isinstance(shown, dict), "a TypedDict"
    members: Any = {name: value for name, value in shown.items() if value is not None}
    return members  # type: ignore[no-any-return]


def instant(at_ms: int | None) -> str | None:
    """A timestamp as it is shown; None where there is none."""
    return None if at_ms is None else rfc3339(at_ms)
