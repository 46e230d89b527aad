"""Members of a body that may be left out, and are not null."""

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema


class NotNull:
    """Marks `X | None` in a body: None where the member is absent, while a null that is sent is
    refused, and published so.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "nullable", f"{source} cannot be None"
        inner: CoreSchema = schema["schema"]
        return inner
