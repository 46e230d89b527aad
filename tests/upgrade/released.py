"""`python -m tests.upgrade.released NAME [--build FOLDER]`: freeze the schemas of a release.

Stores out there were made by them. So a migration that was released never changes, and what the
usage store has stays: later builds only add. `python -m tests.upgrade` writes this file, too.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from tests.services.command import run_to_end
from tests.upgrade.recording import RECORDED

ROOT: Final = Path(__file__).resolve().parents[2]
SCHEMAS: Final = "schemas.json"
MIGRATIONS: Final = "meterline/backends/control_store/migrations/versions"
TABLES: Final = "meterline/backends/clickhouse/schema.sql"
CLAUSES: Final = ("ENGINE =", "PARTITION BY", "ORDER BY", "SETTINGS")
ASK: Final = (
    "import json; from meterline.backends.clickhouse.named_sql import TABLES;"
    "print(json.dumps(TABLES))"
)
ASK_WITHIN_S: Final = 60.0
_CHANGED: Final = (
    f"it was released with {{release}}, and stores that ran it do not run it again. Undo the"
    f" change, and add the next migration to {MIGRATIONS} (CONTRIBUTING.md, Migrations)"
)
_GONE: Final = (
    f"`{{part}}` was released with {{release}}, and stores have it. Put it back into {TABLES}, and"
    " add what is new: a table, or a column or index that an ALTER TABLE gives to older tables"
    " (CONTRIBUTING.md, Migrations)"
)


class Schemas(msgspec.Struct, frozen=True):
    """What a release made of its stores. `migrations`: SHA-256 of each file, by name; `tables`: the
    parts of each statement of the usage store, by its name.
    """

    migrations: Mapping[str, str]
    tables: Mapping[str, Sequence[str]]


def differences(release: str, was: Schemas, now: Schemas) -> Iterator[str]:
    """What was released and is not so any more, and what to do; what is new is no difference."""
    for name, digest in was.migrations.items():
        if now.migrations.get(name) != digest:
            yield f"{name}: {_CHANGED.format(release=release)}"
    for name, parts in was.tables.items():
        there = set(now.tables.get(name, ()))
        for part in parts:
            if part not in there:
                yield f"{name}: {_GONE.format(release=release, part=part)}"


def parts_of(statement: str) -> list[str]:
    """A statement of the usage store as what it makes: each column, index, clause and setting, or
    each change of a table. What it is, whatever the order, the lines and the comments.
    """
    text = " ".join(re.sub(r"--[^\n]*", "", statement).split())
    head, _, rest = text.partition("(") if text.startswith("CREATE") else ("", "", text)
    if not head:
        altered = re.match(r"ALTER TABLE \w+", text)
        assert altered is not None, f"a table is made or altered: {text[:80]}"
        return [altered[0], *_listed(text[altered.end() :])]
    columns, clauses = _closed(rest)
    return [head.strip(), *_listed(columns), *_clauses(clauses)]


def _closed(text: str) -> tuple[str, str]:
    """What stands in parentheses that are open, and what comes behind them."""
    depth = 1
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[:at], text[at + 1 :]
    raise ValueError(text)


def _listed(text: str) -> list[str]:
    """What commas separate outside of parentheses."""
    found, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found if one.strip()]


def _clauses(text: str) -> Iterator[str]:
    """The clauses of a table; each of its settings is one."""
    behind = "|".join(CLAUSES)
    for clause in re.split(f"(?=(?:{behind}) )", text):
        if clause.startswith("SETTINGS "):
            yield from (f"SETTINGS {one}" for one in _listed(clause.removeprefix("SETTINGS ")))
        elif clause.strip():
            yield clause.strip()


def schemas(build: Path = ROOT) -> Schemas:
    """Those of a checkout."""
    files = sorted((build / MIGRATIONS).glob("m[0-9]*"))
    asked = [sys.executable, "-P", "-c", ASK]
    here = {"PYTHONPATH": str(build)}
    tables = json.loads(run_to_end("ask for tables", asked, build, ASK_WITHIN_S, here))
    return Schemas(
        {path.name: sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()},
        {name: parts_of(text) for name, text in tables.items()},
    )


def released() -> dict[str, Schemas]:
    """Those of all releases."""
    return {
        path.parent.name: msgspec.json.decode(path.read_bytes(), type=Schemas)
        for path in sorted(RECORDED.glob(f"*/{SCHEMAS}"))
    }


def freeze(name: str, build: Path) -> None:
    """Write those of a build into its recording."""
    text = msgspec.json.format(msgspec.json.encode(schemas(build)), indent=1)
    (RECORDED / name / SCHEMAS).write_bytes(text + b"\n")


def main() -> None:
    """Freeze those of a build."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade.released", description=__doc__)
    parser.add_argument("name", help="of the recording")
    parser.add_argument("--build", type=Path, default=ROOT, help="a checkout")
    given = parser.parse_args()
    freeze(given.name, given.build.resolve())


if __name__ == "__main__":
    main()
