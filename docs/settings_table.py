"""The table of settings in README.md, made from the settings themselves.

`python -m docs.settings_table` makes it anew; tests/unit/test_docs.py fails where it differs.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic_core import to_jsonable_python

from docs.diagrams import replaced
from meterline.runtime.settings.fields import Settings

README: Final = Path(__file__).parents[1] / "README.md"
NAME: Final = "settings"


def rows() -> Iterator[str]:
    """The lines of the table: name in the file, default when nothing is set, what it is for."""
    defaults = Settings()
    yield "| setting | default | what it does, and when to change it |"
    yield "|---|---|---|"
    for name, field in Settings.model_fields.items():
        default = json.dumps(to_jsonable_python(getattr(defaults, name)))
        shown = "" if default == "null" else f"`{default}`"
        yield f"| `{name}` | {shown} | {field.description} |"


def made(page: str) -> str:
    """The page with the table as the settings have it."""
    return replaced(page, NAME, rows())


if __name__ == "__main__":
    README.write_text(made(README.read_text("utf-8")), "utf-8")
