"""What the product is made of is known, and its licences are allowed."""

import importlib.metadata
import json
import re

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.deploy.image import Image
from tests.deploy.supply import (
    GO_LICENCES,
    NPM,
    ROOT,
    SEEN,
    allowed,
    go_bill,
    go_modules,
    image_bill,
    licence,
    npm_bill,
    npm_licences,
    shipped,
)
from tests.deploy.test_image import LISTED

pytestmark = pytest.mark.standard

GO_MODULES = ROOT / "clients/go/go.mod"
WORDS = {
    "Apache-2.0": ("Apache License", "Version 2.0, January 2004"),
    "BSD-3-Clause": ("Redistribution and use in source and binary forms", "Neither the name of"),
    "MIT": ("Permission is hereby granted, free of charge",),
}
"""What stands in the text of a licence."""


@pytest.mark.long
def test_the_bill_of_the_image_names_what_is_in_it(image: Image) -> None:
    found = {
        re.sub(r"[-_.]+", "-", one) for one in image.run(["python", "-c", LISTED]).stdout.split()
    }
    assert found == shipped()
    bill = image_bill()
    named = {re.sub(r"[-_.]+", "-", one["name"].lower()) for one in bill["components"]}
    assert named | {"meterline"} == found
    for one in bill["components"]:
        assert one["version"] == importlib.metadata.version(one["name"])
        assert one["purl"].startswith("pkg:pypi/")


def test_bills_are_such_by_the_schema() -> None:
    for version, bill in [
        (SchemaVersion.V1_6, image_bill()),
        (SchemaVersion.V1_6, go_bill()),
        *((SchemaVersion.V1_5, npm_bill(folder)) for folder in NPM.values()),
    ]:
        assert bill["specVersion"] == version.to_version()
        assert JsonStrictValidator(version).validate_str(json.dumps(bill)) is None
        assert bill["components"]


def test_licences_of_what_is_shipped_are_allowed() -> None:
    python = {name: licence(name) for name in sorted(shipped())}
    assert {name: said for name, said in python.items() if not allowed(said)} == {}
    for folder in NPM.values():
        assert {name: said for name, said in npm_licences(folder) if not allowed(said)} == {}
    assert {name: said for name, said in GO_LICENCES.items() if not allowed(said)} == {}


def test_the_bill_of_the_go_client_names_what_is_linked_with_it() -> None:
    required = dict(
        re.findall(
            r"^(?:require )?\s*([\w./-]+\.[\w./-]+) (v\S+)", GO_MODULES.read_text(), re.MULTILINE
        )
    )
    bill = go_bill()
    assert {one["name"]: one["version"] for one in bill["components"]} == required
    assert required.keys() == GO_LICENCES.keys()
    refs = [one["bom-ref"] for one in bill["components"]]
    client, *others = bill["dependencies"]
    assert client["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert [one["ref"] for one in others] == refs
    assert set(refs) == set(client["dependsOn"])


@pytest.mark.parametrize("name", sorted(GO_LICENCES))
def test_a_licence_that_was_read_in_a_module_is_still_the_one(name: str) -> None:
    (module,) = [one for one in go_modules() if one.path == name]
    (file,) = module.folder.glob("LICEN[CS]E*")
    text = " ".join(file.read_text().split())
    found = [name for name, words in WORDS.items() if all(word in text for word in words)]
    assert found == [GO_LICENCES[name]]


@pytest.mark.parametrize("name", sorted(SEEN))
def test_a_licence_that_was_read_by_hand_is_still_the_one(name: str) -> None:
    files = importlib.metadata.files(name) or []
    (text,) = [one.read_text() for one in files if one.name.startswith("LICEN")]
    assert "Redistribution and use in source and binary forms" in text


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("(MIT OR CC0-1.0)", True),
        ("GPL-3.0-or-later", False),
        ("MIT AND GPL-3.0", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_expressions_are_read(expression: str, fine: bool) -> None:
    assert allowed(expression) is fine
