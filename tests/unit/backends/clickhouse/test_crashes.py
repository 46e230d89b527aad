"""A crash ends a process that has the embedded engine; it does not make it silent."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.standard
WITHIN_S = 100.0  # a handler of the engine would wait for 300 s
LIFE = """
import asyncio, ctypes, signal, sys
from meterline.backends.clickhouse.connection import Connection
async def main():
    connection = Connection(f"chdb:{sys.argv[1]}")
    print(await connection.query("SELECT 1", {}), flush=True)
    ctypes.PyDLL(None)["raise"](int(sys.argv[2]))  # the interpreter's lock is held
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_ends_the_process(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIFE, str(tmp_path / "usage"), str(number.value)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=WITHIN_S)
    assert done.stdout
    assert done.returncode == -number
