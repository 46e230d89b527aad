"""Somebody's integration with the peer, on this server: only its base address is another one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.journey.setups import embedded, telling

pytestmark = pytest.mark.standard

SCRIPT = Path(__file__).with_name("peer_client.py")
WITHIN_S = 120.0
STEPS = [
    "define_meters",
    "ingest",
    "query",
    "regroup",
    "describe_subjects",
    "list_events",
    "delete_meters",
]


def test_the_peers_own_client_works_unchanged(tmp_path: Path) -> None:
    setup = embedded(tmp_path / "embedded")
    try:
        with telling(setup):
            setup.start()
            ended = subprocess.run(
                [sys.executable, str(SCRIPT), setup.control.url],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout.split() == STEPS
    finally:
        setup.kill()
