"""What `meterline migrate --partitions` says of processes that it cannot see."""

from pathlib import Path

import pytest

from meterline.runtime.commands.growing import REPLACED

UPGRADE = Path("docs/upgrade.md").read_text()


@pytest.mark.parametrize("role", ["ingest", "dispatch", "control"])
def test_roles_that_must_be_replaced_before_are_named(role: str) -> None:
    assert role in REPLACED
    _, _, behind = UPGRADE.partition("## Before you add partitions")
    section, _, _ = behind.partition("\n## ")
    names = {"ingest": "**Gateways**"}
    assert names.get(role, f"`{role}`") in section
