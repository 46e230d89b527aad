"""What a new document takes away from those who use the last released one."""

import json
import subprocess
from pathlib import Path
from typing import Final

from clients.openapi.forms import Document, for_comparison
from clients.openapi.tools import HERE, ToolError, go_tool

RELEASED: Final = HERE / "released"
SEVERITY: Final = HERE / "severity.txt"
_BROKEN: Final = 1


def breaks(released: Document, current: Document, folder: Path) -> str:
    """What breaks, for people; empty if nothing does. The folder is for files on the way.

    Raises `ToolError` where the documents cannot be compared.
    """
    command = [str(go_tool("oasdiff")), "breaking"]
    for name, document in (("released.json", released), ("current.json", current)):
        place = folder / name
        place.write_text(json.dumps(for_comparison(document)), encoding="utf-8")
        command.append(str(place))
    options = ["--flatten-params", "--fail-on", "ERR", "--severity-levels", str(SEVERITY)]
    done = subprocess.run(
        [*command, *options, "--format", "text", "--color", "never"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode not in (0, _BROKEN):
        raise ToolError(f"oasdiff ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout if done.returncode == _BROKEN else ""
