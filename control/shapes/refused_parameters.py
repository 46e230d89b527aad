"""Query parameters of the peer that mean something that is not there: they are refused with words,
since the answer without them would be another one. They are not published.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError


def _no_customers(_value: object) -> object:
    message = "is not supported: there are no customers here, only subjects"
    raise PydanticCustomError("unknown_property", message)


def _unsupported(_value: object) -> object:
    message = "is not supported; the answer would be another one"
    raise PydanticCustomError("unknown_property", message)


Customers = SkipJsonSchema[Annotated[Any, BeforeValidator(_no_customers)]]
"""A condition on customers."""
Unsupported = SkipJsonSchema[Annotated[Any, BeforeValidator(_unsupported)]]
"""Any other condition that is not known here."""
