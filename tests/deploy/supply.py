"""What the product is made of: bills of materials in CycloneDX, and the licences in them.

    python -m tests.deploy.supply FOLDER

writes `image.json` (the Python packages of the image), `console.json` and `typescript.json` (the
npm packages that are shipped), and `go.json` (the modules that the Go client is linked with).
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from clients.openapi.tools import GO, run

ROOT: Final = Path(__file__).resolve().parents[2]
NPM: Final = {"console": ROOT / "console", "typescript": ROOT / "clients/typescript"}
WITHIN_S: Final = 480.0  # most of it for a machine that does something else too

ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",  # on its own files only: they are not changed here
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
"""Licences of what is shipped or linked to. Another one is a decision of its own."""

_SAID: Final = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Classifiers of packages without an expression."""

GO_LICENCES: Final[Mapping[str, str]] = {
    "github.com/google/uuid": "BSD-3-Clause",
    "github.com/oapi-codegen/runtime": "Apache-2.0",
    "github.com/standard-webhooks/standard-webhooks/libraries": "MIT",
    "github.com/apapsch/go-jsonmerge/v2": "MIT",
}
"""Read in the modules: a go.mod says none."""

SEEN: Final[Mapping[str, str]] = {"protobuf": "BSD-3-Clause", "venusian": "BSD-2-Clause"}
"""Read in the package's own licence file, where what it declares is no name of a licence."""


IMAGE_EXTRAS: Final = frozenset({"traces"})
"""What the Dockerfile installs besides (tests/unit/test_deploy.py)."""


def shipped() -> frozenset[str]:
    """The distributions that the product needs, and with the extras of the image: what it holds."""
    found: set[str] = set()
    wanted = [("meterline", IMAGE_EXTRAS)]
    asked: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        one = wanted.pop()
        if one in asked:
            continue
        asked.add(one)
        name, extras = one
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": it}) for it in extras | {""}):
                wanted.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return frozenset(found)


def licence(name: str) -> str:
    """What a distribution says of its licence, as an expression where it has one."""
    if name in SEEN:
        return SEEN[name]
    said = importlib.metadata.metadata(name)
    if "License-Expression" in said:
        return said["License-Expression"]
    classified = [
        one.rpartition(" :: ")[2]
        for one in said.get_all("Classifier") or []
        if one.startswith("License :: OSI Approved ::")
    ]
    if classified:
        return " OR ".join(_SAID.get(one, one) for one in classified)
    return said["License"].partition("\n")[0] if "License" in said else "unknown"


def allowed(expression: str) -> bool:
    """Whether one of the alternatives of an expression has allowed licences only."""
    plain = expression.replace("(", " ").replace(")", " ")
    return any(
        all(part.strip() in ALLOWED for part in re.split(r"\s+AND\s+", choice.strip()))
        for choice in re.split(r"\s+OR\s+", plain)
    )


def npm_licences(folder: Path) -> Iterator[tuple[str, str]]:
    """Packages that are shipped, with their licences, from the lock file."""
    lock = json.loads((folder / "package-lock.json").read_text())
    for path, one in lock["packages"].items():
        if path and not one.get("dev"):
            yield path.rpartition("node_modules/")[2], str(one.get("license", "unknown"))


@cache
def image_bill() -> dict[str, Any]:
    """The bill of the image: its packages, their versions and licences, and who needs whom."""
    program = str(Path(sys.executable).with_name("cyclonedx-py"))
    command = ["environment", "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    done = subprocess.run(
        [program, *command, "--output-format", "JSON", sys.executable],
        capture_output=True,
        text=True,
        check=True,
        timeout=WITHIN_S,
    )
    bill: dict[str, Any] = json.loads(done.stdout)
    names = shipped()
    kept = [one for one in bill["components"] if canonicalize_name(one["name"]) in names]
    refs = {one["bom-ref"] for one in kept} | {bill["metadata"]["component"]["bom-ref"]}
    bill["components"] = kept
    bill["dependencies"] = [
        {**one, "dependsOn": [ref for ref in one.get("dependsOn", []) if ref in refs]}
        for one in bill["dependencies"]
        if one["ref"] in refs
    ]
    return bill


@dataclass(frozen=True, slots=True)
class Module:
    """A module of Go, and its folder on this machine."""

    path: str
    version: str
    folder: Path

    @property
    def purl(self) -> str:
        """Its name in a bill."""
        return f"pkg:golang/{self.path}@{self.version}"


@cache
def go_modules() -> tuple[Module, ...]:
    """The modules whose packages the Go client is made of; those of its tests are none."""
    run(["go", "mod", "verify"], GO)  # by the hashes of go.sum
    form = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
    lines = set(run(["go", "list", "-deps", "-f", form, "./..."], GO).splitlines()) - {""}
    found = [line.split(" ", 2) for line in sorted(lines)]
    return tuple(Module(path, version, Path(folder)) for path, version, folder in found)


def go_bill() -> dict[str, Any]:
    """The bill of the Go client. Go has no command that writes one."""
    (client,) = re.findall(r"^module (\S+)$", (GO / "go.mod").read_text(), re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    ref = f"pkg:golang/{client}@v{version}"
    needs: dict[str, set[str]] = {ref: set()}
    linked = {f"{one.path}@{one.version}": one.purl for one in go_modules()}
    for line in run(["go", "mod", "graph"], GO).splitlines():
        who, whom = line.split()
        if whom in linked and (who == client or who in linked):
            needs.setdefault(linked.get(who, ref), set()).add(linked[whom])
    made = [
        {
            "bom-ref": one.purl,
            "type": "library",
            "name": one.path,
            "version": one.version,
            "purl": one.purl,
            "licenses": [{"license": {"id": GO_LICENCES.get(one.path, "unknown")}}],
        }
        for one in go_modules()
    ]
    itself = {"bom-ref": ref, "type": "library", "name": client, "version": f"v{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": itself},
        "components": made,
        "dependencies": [
            {"ref": it, "dependsOn": sorted(needs.get(it, ()))} for it in (ref, *linked.values())
        ],
    }


def npm_bill(folder: Path) -> dict[str, Any]:
    """The bill of an npm package, from its lock file."""
    command = ["npm", "sbom", "--sbom-format", "cyclonedx", "--omit", "dev", "--package-lock-only"]
    bill: dict[str, Any] = json.loads(run(command, folder))
    return bill


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for written, made in (
        ("image", image_bill()),
        ("go", go_bill()),
        *((name, npm_bill(place)) for name, place in NPM.items()),
    ):
        (target / f"{written}.json").write_text(json.dumps(made, indent=1) + "\n")
        sys.stdout.write(f"{target}/{written}.json: {len(made['components'])} components\n")
