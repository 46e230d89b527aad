"""The documents of the last release, and the hashes by which a change of them is noticed."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from clients.openapi.comparison import RELEASED

DOCUMENTS: Final = ("v3.json", "v1.json")
DIGESTS: Final = RELEASED / "SHA256SUMS"


def digests(folder: Path = RELEASED) -> str:
    """The lines of `DIGESTS` for the documents in a folder, as `sha256sum` writes them."""
    return "".join(
        f"{sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in DOCUMENTS
    )
