"""The documents and the clients' generated files, made anew."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from clients.openapi.forms import for_go, for_typescript
from clients.openapi.tools import GO, HERE, ROOT, TYPESCRIPT, go_tool, npm_packages, run
from meterline.runtime.commands.documents import write

PLACES: Final[Mapping[str, Path]] = {
    "v3.json": HERE / "v3.json",
    "v1.json": HERE / "v1.json",
    "v3.ts": TYPESCRIPT / "src" / "generated" / "v3.ts",
    "v3.gen.go": GO / "api" / "v3.gen.go",
}
"""Names of what is made, and where it lies in the repository."""


def make(folder: Path) -> None:
    """Write all that is made into an empty folder, by the names of `PLACES`."""
    write(folder)
    document = json.loads((folder / "v3.json").read_text(encoding="utf-8"))
    source = folder / "source.json"
    source.write_text(json.dumps(for_typescript(document)), encoding="utf-8")
    openapi_typescript = npm_packages(TYPESCRIPT) / "openapi-typescript"
    # what has a default may be left out of a request
    options = ["--root-types", "--root-types-no-schema-prefix", "--default-non-nullable", "false"]
    run([str(openapi_typescript), str(source), "-o", str(folder / "v3.ts"), *options], folder)
    source.write_text(json.dumps(for_go(document)), encoding="utf-8")
    oapi_codegen = go_tool("codegen")
    output = folder / "v3.gen.go"
    config = HERE / "codegen.yaml"
    run([str(oapi_codegen), "-config", str(config), "-o", str(output), str(source)], folder)
    source.unlink()


def put(folder: Path) -> None:
    """Bring what was made to its places."""
    for name, place in PLACES.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, place)


def stale(folder: Path) -> Iterator[str]:
    """The files of the repository that are not what was made."""
    for name, place in PLACES.items():
        if not place.exists() or place.read_bytes() != (folder / name).read_bytes():
            yield str(place.relative_to(ROOT))
