"""The condition that a row of cells is not hidden by an erasure (pure)."""

from collections.abc import Collection
from typing import Any, Final

from meterline.usage import Hidden

# By subject: all rows of pseudonyms that nobody reads yet; of names, rows below their borders.
_HIDDEN: Final = """(has({pseudonyms}, subject) OR (has({names}, subject)
    AND (log < {logs}[indexOf({names}, subject)] OR (log = {logs}[indexOf({names}, subject)]
        AND slice < {ends}[(indexOf({names}, subject) - 1) * {width} + partition + 1]))))"""
_NAMES: Final = ("pseudonyms", "names", "logs", "ends", "width")
_KINDS: Final = ("Array(String)", "Array(String)", "Array(UInt16)", "Array(UInt64)", "UInt16")


def hidden_condition(hidden: Hidden | None, prefix: str) -> tuple[str, dict[str, Any]]:
    """The condition that a row is hidden, with its parameters; "" where nothing is. `prefix` tells
    its parameters from others.
    """
    if hidden is None or not (hidden.pseudonyms or hidden.erased):
        return "", {}
    merged = _furthest(hidden)
    width = max((len(ends) for _, _, ends in merged), default=0)
    values: tuple[Any, ...] = (
        [*hidden.pseudonyms],
        [name for name, _, _ in merged],
        [log for _, log, _ in merged],
        [end for _, _, ends in merged for end in (*ends, *[0] * (width - len(ends)))],
        width,
    )
    places = {name: f"{{{prefix}{name}:{kind}}}" for name, kind in zip(_NAMES, _KINDS, strict=True)}
    return _HIDDEN.format(**places), {
        f"{prefix}{name}": value for name, value in zip(_NAMES, values, strict=True)
    }


def _furthest(hidden: Hidden) -> list[tuple[str, int, tuple[int, ...]]]:
    """Of each name its last border: what lies before an earlier one lies before that, too."""
    found: dict[str, tuple[str, int, tuple[int, ...]]] = {}
    for one in hidden.erased:
        found[one[0]] = max(found.get(one[0], one), one, key=lambda it: (it[1], sum(it[2])))
    return list(found.values())


def hidden_of_all(hidden: Collection[Hidden]) -> tuple[str, dict[str, Any]]:
    """The same for rows of all namespaces, told apart by revision."""
    conditions, parameters = [], dict[str, Any]()
    for number, one in enumerate(hidden):
        condition, given = hidden_condition(one, f"h{number}_")
        if condition and one.revisions:
            name = f"h{number}_revisions"
            conditions.append(f"(has({{{name}:Array(UInt32)}}, revision) AND {condition})")
            parameters |= {**given, name: list(one.revisions)}
    return " OR ".join(conditions), parameters
