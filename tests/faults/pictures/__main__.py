"""`python -m tests.faults.pictures FOLDER`: draw again what `python -m tests.faults --held
--pictures FOLDER` recorded there, by the dashboard as it is now.
"""

import argparse
import sys
from pathlib import Path

from tests.faults.pictures.album import SERIES, draw
from tests.faults.pictures.excerpt import excerpt
from tests.faults.pictures.recording import read, write


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--excerpt", type=Path, help="write what is before the first fault there, for tests"
    )
    asked = parser.parse_args()
    if asked.excerpt is not None:
        write(asked.excerpt, excerpt(*read(asked.folder / SERIES)), [])
        return
    for place in draw(asked.folder):
        sys.stdout.write(f"{place}\n")


if __name__ == "__main__":
    main()
