"""Whether an object is one that Kubernetes takes, by its published schemas."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from tests.deploy.vendored import KINDS, OF_OTHERS, VERSIONS

FOLDER: Final = Path(__file__).with_name("schemas")
_MESSAGE_CHARS_MAX: Final = 300


def faults(one: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an object, in each version; nothing if it is taken."""
    name = (one["apiVersion"], one["kind"])
    if name in KINDS:
        for version in VERSIONS:
            definition = KINDS[name]
            for found in _wrong(f"kubernetes-{version}.json", definition, one):
                yield f"{version}: {found}"
    elif name in OF_OTHERS.values():
        yield from _wrong("operators.json", one["kind"], one)
    else:
        yield f"there is no schema of {name}: add it to tests/deploy/vendored.py"


def _wrong(file: str, definition: str, one: Mapping[str, Any]) -> Iterator[str]:
    for error in _validator(file, definition).iter_errors(one):
        where = "/".join(str(part) for part in error.absolute_path)
        named = f"{one['kind']} {one['metadata']['name']}"
        yield f"{named}: {where}: {error.message[:_MESSAGE_CHARS_MAX]}"


@cache
def _validator(file: str, definition: str) -> Draft202012Validator:
    defs = json.loads((FOLDER / file).read_text())["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": defs})
