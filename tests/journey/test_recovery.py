"""Flights through a backup under load, a wiped disk, a restore, and a move to servers and back.

`python -m tests.recovery` takes all flights, and upgrades the release before as well.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.journey.receiver import Receiver
from tests.journey.setups import Servers
from tests.recovery.ground import ground
from tests.recovery.steps import Steps
from tests.recovery.ways import Way, moved, restored_embedded, restored_on_servers

FLIGHTS = 56_000  # of 336,776: January, which is in the first half, October, and some of November
WAYS: Final[Mapping[str, Way]] = {
    "restored-embedded": restored_embedded,
    "restored-on-servers": restored_on_servers,
    "moved": moved,
}


@pytest.mark.parametrize("name", WAYS)
def test_all_is_exact_after_each_step(
    name: str, tmp_path: Path, servers: Servers, receiver: Receiver
) -> None:
    steps = Steps(name)
    with ground(tmp_path, FLIGHTS, receiver) as made:
        WAYS[name](made, servers, steps)
    assert len(steps.done) >= 5
    assert not any(step.failed for step in steps.done)
