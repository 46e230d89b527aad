"""Two threads make values of one kind from rows, for the first time in their process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.standard
WITHIN_S = 100.0
LIFE = """
from dataclasses import dataclass
from threading import Event, Thread
from meterline.backends.control_store.store import value_of

learning, read = Event(), Event()

def told_late():
    learning.set()
    read.wait(1)  # whoever does not wait for this has read its value by then
    return int

@dataclass
class Inner:
    number: "told_late()"

@dataclass
class Outer:
    inner: Inner
    name: str

class Row:
    def _asdict(self):
        return {"name": "a", "inner": Inner(1)}

def first():
    assert value_of(Outer, Row()) == Outer(Inner(1), "a")

thread = Thread(target=first)
thread.start()
assert learning.wait(60)
first()
read.set()
thread.join()
print("both")
"""


def test_a_kind_is_known_whole_before_it_is_used() -> None:
    """Without that the process crashes: the test needs one of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE],
        check=False,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr
