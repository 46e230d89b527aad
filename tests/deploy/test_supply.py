"""What the product is made of is known, and its licences are allowed."""

import importlib.metadata
import json
import re

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.deploy.image import Image
from tests.deploy.supply import (
    NPM,
    ROOT,
    SEEN,
    allowed,
    image_bill,
    licence,
    npm_bill,
    npm_licences,
    shipped,
)
from tests.deploy.test_image import LISTED

pytestmark = pytest.mark.standard

GO_MODULES = ROOT / "clients/go/go.mod"
GO_LICENCES = {
    "github.com/google/uuid": "BSD-3-Clause",
    "github.com/oapi-codegen/runtime": "Apache-2.0",
    "github.com/standard-webhooks/standard-webhooks/libraries": "MIT",
    "github.com/apapsch/go-jsonmerge/v2": "MIT",
}
"""Read in the modules: a go.mod says none."""


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
    modules = set(
        re.findall(r"^(?:require )?\s*([\w./-]+\.[\w./-]+) v", GO_MODULES.read_text(), re.MULTILINE)
    )
    assert modules == GO_LICENCES.keys()
    assert all(map(allowed, GO_LICENCES.values()))


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
