"""Conditions on a text among query parameters, with OpenMeter's operators."""

from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from meterline.http.shapes import Parameters
from meterline.limits import EVENT_FILTER_CHARS_MAX, EVENT_FILTER_ITEMS_MAX

_SEPARATOR: Final = ","
_ITEMS: Final = rf"^[^,]*(,[^,]*){{0,{EVENT_FILTER_ITEMS_MAX - 1}}}$"

Operand = Annotated[str, Field(max_length=EVENT_FILTER_CHARS_MAX)]
Operands = Annotated[
    str,
    Field(
        max_length=EVENT_FILTER_CHARS_MAX,
        pattern=_ITEMS,
        description="Texts with commas between them.",
    ),
]


class TextConditions(Parameters):
    """The operators that every filter of texts has."""

    eq: Operand | None = None
    neq: Operand | None = None
    oeq: Annotated[Operands | None, Field(description="Equal to one of these.")] = None
    contains: Annotated[Operand | None, Field(description="Whatever the case of letters.")] = None
    ocontains: Annotated[Operands | None, Field(description="Contains one of these.")] = None
    gt: Operand | None = None
    gte: Operand | None = None
    lt: Operand | None = None
    lte: Operand | None = None


class TextFilter(TextConditions):
    """Conditions on a text, joined by and: `filter[key][contains]=token`. A value without operator,
    `filter[key]=tokens`, is one of `eq`.
    """

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, sent: Any) -> Any:
        return {"eq": sent} if isinstance(sent, str) else sent

    def accepts(self, text: str) -> bool:
        """Whether a text passes."""
        return all(
            (
                self.eq is None or text == self.eq,
                self.neq is None or text != self.neq,
                self.oeq is None or text in items(self.oeq),
                self.contains is None or _contains(text, self.contains),
                self.ocontains is None
                or any(_contains(text, part) for part in items(self.ocontains)),
                self.gt is None or text > self.gt,
                self.gte is None or text >= self.gte,
                self.lt is None or text < self.lt,
                self.lte is None or text <= self.lte,
            )
        )


class NamedFilter(Parameters):
    """Conditions on what has a key and a name, joined by and."""

    key: TextFilter | None = None
    name: TextFilter | None = None

    def accepts(self, key: str, name: str) -> bool:
        """Whether a thing of this key and name is listed."""
        pairs = ((self.key, key), (self.name, name))
        return all(one is None or one.accepts(text) for one, text in pairs)


def items(text: str) -> list[str]:
    """The items of a comma list, without the blanks around them."""
    return [item.strip() for item in text.split(_SEPARATOR)]


def _contains(text: str, part: str) -> bool:
    return part.casefold() in text.casefold()
