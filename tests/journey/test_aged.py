"""An installation that has counted for long, with many tenants and meters: it starts, counts, fills
in a new meter over its past, and its audit is clean. Both set-ups.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.aged.age import COUNTED_TYPE, Age
from tests.journey.client import Server
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.processes import run_command
from tests.journey.setups import SetUp, distributed, embedded, started

AGE: Final = Age(seals=256, meters=300, partitions=4, end_ms=0)  # five hours of every partition
NEW: Final = 400  # events that come now
WITHIN_S: Final = 120.0
V3: Final = "/api/v3/metering"
BATCH: Final = {"Content-Type": "application/cloudevents-batch+json"}


@pytest.fixture(params=SETUPS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SetUp]:
    """A set-up on stores that were made old before."""
    if request.param == "embedded":
        setup = embedded(tmp_path)
    else:
        setup = distributed(tmp_path, request.getfixturevalue("servers"))
    environment = next(iter(setup.processes.values())).environment
    command = [sys.executable, "-m", "tests.aged", str(AGE.seals), str(AGE.meters)]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    with started(setup):
        yield setup


def total(control: Server, meter: str) -> int:
    """What a meter has counted of the default tenant, in all."""
    answer = control.ask("POST", f"{V3}/meters/{meter}/query", {})
    assert answer.status == 200, answer.body
    return sum(int(row["value"]) for row in answer.json["data"])


def test_an_old_installation_counts_fills_in_and_is_clean(old: SetUp) -> None:
    past = AGE.events_of(0)
    assert total(old.control, "m0") == past
    events = [
        {"specversion": "1.0", "id": str(number // 2), "source": "now", "type": COUNTED_TYPE,
         "subject": f"customer-{number // 2 % 7}"}
        for number in range(2 * NEW)
    ]  # fmt: skip
    answer = old.ingest.ask("POST", f"{V3}/events", events, BATCH)
    assert answer.status == 202, answer.body
    made = {"key": "later", "name": "later", "aggregation": "count", "event_type": COUNTED_TYPE}
    old.control.made(f"{V3}/meters", made)
    until("all of it counts", WITHIN_S, lambda: _rests(old))
    account = old.status["account"]
    assert (account["new"], account["duplicate"]) == (AGE.events + NEW, NEW)
    assert total(old.control, "m0") == past + NEW
    assert total(old.control, "later") == past + NEW
    differences = run_command(["audit", "--server", old.control.url], old.folder, {})
    assert differences == ""


def _rests(setup: SetUp) -> bool:
    status = setup.status
    counted = status["account"]["received"] == AGE.events + 2 * NEW
    return bool(counted and status["caught_up"] and not status["backfilling"])
