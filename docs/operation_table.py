"""The tables of operations in docs/api.md, made from the declarations that are served.

`python -m docs.operation_table` makes them anew; tests/unit/test_docs.py fails where they differ.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from docs.diagrams import replaced
from meterline.http.mounting import OLD_PREFIXES, V3_PREFIXES
from meterline.http.operation import Operation
from meterline.runtime.commands.documents import declared_v1, declared_v3

PAGE: Final = Path(__file__).with_name("api.md")

AnyOperation = Operation[Any, Any]


def v3_operations() -> list[AnyOperation]:
    """Those of API v3, in the order of their declarations."""
    return [one.operation for one in declared_v3()]


def v1_operations() -> list[AnyOperation]:
    """Those of API v1 and v2, in the same order."""
    return [one.operation for one in declared_v1()]


def places() -> set[tuple[str, str]]:
    """Method and whole path of every operation; those of v3 by the contract's prefix."""
    v3 = {(one.method, V3_PREFIXES[0] + one.path) for one in v3_operations()}
    return v3 | {(one.method, OLD_PREFIXES[0] + one.path) for one in v1_operations()}


def rows(operations: Iterable[AnyOperation], prefix: str) -> Iterator[str]:
    """The lines of a table: what it does, its id, where, which scope, the answers of success."""
    yield "| operation | id | method and path | scope | success |"
    yield "|---|---|---|---|---|"
    listed = list(operations)
    tags = list(dict.fromkeys(one.tag for one in listed))
    tag = ""
    for one in sorted(listed, key=lambda one: tags.index(one.tag)):
        if one.tag != tag:
            tag = one.tag
            yield f"| **{tag}** | | | | |"
        scope = "none" if one.scope is None else f"`{one.scope.value}`"
        success = " or ".join(dict.fromkeys(str(answer.status) for answer in one.answers))
        where = f"`{one.method} {prefix}{one.path}`"
        yield f"| {one.summary} | `{one.id}` | {where} | {scope} | {success} |"


def made(page: str) -> str:
    """The page with both tables as the declarations have it."""
    page = replaced(page, "operations of v3", rows(v3_operations(), V3_PREFIXES[0]))
    return replaced(page, "operations of v1", rows(v1_operations(), OLD_PREFIXES[0]))


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
