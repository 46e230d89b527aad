"""The table of scopes in docs/access.md, made from the scopes and the operations that ask for them.

`python -m docs.scope_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.diagrams import replaced
from docs.operation_table import AnyOperation, v1_operations, v3_operations
from meterline.access import Scope

PAGE: Final = Path(__file__).with_name("access.md")
NAME: Final = "scopes"
LETS: Final[Mapping[Scope, str]] = {
    Scope.EVENTS_WRITE: "send events; with `events:read` also redrive and dismiss refusals",
    Scope.EVENTS_READ: "list events with their payloads, and refusals",
    Scope.METERS_READ: "see meters",
    Scope.METERS_WRITE: "create, update and delete meters",
    Scope.SUBJECTS_READ: "see subjects",
    Scope.SUBJECTS_WRITE: "create, update and delete subjects",
    Scope.SUBJECTS_ERASE: "erase subjects: names and payloads go for good",
    Scope.USAGE_READ: "query usage",
    Scope.REPORTS_READ: "see reports, runs and deliveries, and pull deliveries",
    Scope.REPORTS_WRITE: "create, update, run and delete reports; replay deliveries",
    Scope.SECRETS_READ: "see and rotate signing secrets",
    Scope.KEYS_READ: "see API keys, never their secrets",
    Scope.KEYS_WRITE: "create, update, rotate and revoke API keys",
    Scope.CHANGES_READ: "see who changed what",
    Scope.STATUS_READ: "see the status",
    Scope.OPERATE: "manage the installation: the full status, audits, any plan for a key",
}


def rows() -> Iterator[str]:
    """The lines of the table: scope, what it lets a key do, the operations of v3 and of v1."""
    yield "| scope | allows a key to | operations of v3 | operations of v1 and v2 |"
    yield "|---|---|---|---|"
    for scope in Scope:
        v3, v1 = (_asking(scope, of()) for of in (v3_operations, v1_operations))
        yield f"| `{scope.value}` | {LETS[scope]} | {v3} | {v1} |"


def _asking(scope: Scope, operations: Iterable[AnyOperation]) -> str:
    return ", ".join(
        f"`{name}`" for name in sorted(one.id for one in operations if one.scope is scope)
    )


def made(page: str) -> str:
    """The page with the table as the declarations have it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text("utf-8")), "utf-8")
