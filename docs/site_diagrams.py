"""The script that draws the diagrams of the site. The site serves it itself: mkdocs-material would
ask another host for it, and readers without that host would see text.
"""

import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.services.fetch import CACHE, made_once, packed

SCRIPT: Final = "javascripts/mermaid.min.js"  # as site.yaml names it
VERSION: Final = "11.17.2"
# As in npm's `integrity`.
SHA512: Final = (
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)


def script() -> bytes:
    """Its text, fetched by npm the first time. Raises `ServiceError` where it cannot be had."""
    final = CACHE / f"mermaid-{VERSION}"
    name = Path(SCRIPT).name
    with made_once(final) as making:
        if making is not None:
            sys.stderr.write(f"fetching mermaid {VERSION} by npm into {final}\n")
            tarball = packed(f"mermaid@{VERSION}", SHA512, making)
            with tarfile.open(tarball) as archive:
                member = archive.extractfile(f"package/dist/{name}")
                assert member is not None, "a regular file, as in the verified tarball"
                (making / name).write_bytes(member.read())
            tarball.unlink()
    return (final / name).read_bytes()
