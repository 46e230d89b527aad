"""A crash in native code ends the process at once, and its log says where each thread was."""

import os
import signal
from pathlib import Path

import pytest

from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.services.local import free_port

pytestmark = pytest.mark.standard
WITHIN_S = 100.0  # a handler of the engine would keep the process for 300 s, and silent


def test_a_crash_is_no_silence(tmp_path: Path) -> None:
    settings = {"METERLINE_DATA_DIR": str(tmp_path / "data")}
    server = role_process("up", ["up"], tmp_path / "up", free_port(), settings)
    server.start()
    try:
        os.kill(server.pid, signal.SIGSEGV)
        until("it ended", WITHIN_S, lambda: server.ended() is not None)
        assert server.ended() == -signal.SIGSEGV
        told = server.log_path.read_text()
        assert "Fatal Python error: Segmentation fault" in told
        assert "sqlite_log.py" in told, "stacks of all threads"
        server.kill()
        server.start()  # nothing of it is in the way of the next one
    finally:
        server.kill()
