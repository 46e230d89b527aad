"""Conditions on usage and on subjects: one operator with its operands (contract 2.2)."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

Operand = TypeVar("Operand", int, str)


class Comparison(StrEnum):
    """The eight operators, as the contract spells them."""

    GT = "$gt"
    GTE = "$gte"
    LT = "$lt"
    LTE = "$lte"
    EQ = "$eq"
    NE = "$ne"
    IN = "$in"
    NIN = "$nin"


LISTS: Final = frozenset({Comparison.IN, Comparison.NIN})


_COMPARE: Final[Mapping[Comparison, Callable[[Any, Any], bool]]] = {
    Comparison.GT: operator.gt,
    Comparison.GTE: operator.ge,
    Comparison.LT: operator.lt,
    Comparison.LTE: operator.le,
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
}


@dataclass(frozen=True, slots=True)
class Condition(Generic[Operand]):
    """One operator with its operands: any number for `$in` and `$nin`, exactly one for the rest."""

    comparison: Comparison
    operands: tuple[Operand, ...]

    def __post_init__(self) -> None:
        if self.comparison not in LISTS and len(self.operands) != 1:
            message = f"{self.comparison} takes one operand"
            raise ValueError(message)

    def accepts(self, value: Operand) -> bool:
        """Whether a value passes."""
        if self.comparison is Comparison.IN:
            return value in self.operands
        if self.comparison is Comparison.NIN:
            return value not in self.operands
        return _COMPARE[self.comparison](value, self.operands[0])
