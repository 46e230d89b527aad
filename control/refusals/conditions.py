"""Conditions on refusals that were read by another way than a search (pure)."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from meterline.event import Column, Condition, ListedEvent, Op

_COMPARE: Final[Mapping[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.GT: operator.gt,
    Op.GTE: operator.ge,
    Op.LT: operator.lt,
    Op.LTE: operator.le,
}


def meets(listed: ListedEvent, column: Column, condition: Condition) -> bool:
    """Conditions of this list are of few kinds; the stores have judged most by themselves."""
    value: Any = listed.append_ms if column is Column.STORED_AT else getattr(listed, column.value)
    (operand,) = condition.values
    return bool(_COMPARE[condition.op](value, operand))
