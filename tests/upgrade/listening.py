"""`python -P listening.py FILE ROLE ...`: the command `meterline` of the build on `PYTHONPATH`. It
has small slices, and writes each statement to the control store into FILE.

It is run as a bare script, so that nothing of this checkout is in the way of that build.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

_LIST = re.compile(r"\((?:\?|\$\d+(?:::[A-Z]+)?)(?:, (?:\?|\$\d+(?:::[A-Z]+)?))*\)")
_LISTS = re.compile(r"\(\.\.\.\)(?:, \(\.\.\.\))+")


def listen(into: Path) -> None:
    """From now on each statement is written once, as a line of JSON. Two that differ only in how
    many values a list has are one.
    """
    seen: set[str] = set()

    def told(
        _connection: Any, _cursor: Any, statement: str, _values: Any, _context: Any, _many: Any
    ) -> None:
        form = _LISTS.sub("(...)", _LIST.sub("(...)", statement))
        if form not in seen:
            seen.add(form)
            with into.open("a") as file:
                file.write(json.dumps(statement) + "\n")

    event.listen(Engine, "before_cursor_execute", told)


def main(file: str, *arguments: str) -> None:
    """Listen, and be the command."""
    listen(Path(file))
    # Of the build that is recorded, as is all that it imports.
    from tests.faults import process  # noqa: PLC0415

    process.main(arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
