"""Feeding the sender piece by piece: a test decides what happens in the middle of a load."""

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from tests.journey.processes import sending
from tests.journey.setups import SetUp

SENT_WITHIN_S = 400.0
TOOK_WITHIN_S = 180.0
LINES_AT_ONCE = 50


class Feed:
    """The input of a running `meterline send`; `fed` lines went down its pipe."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.fed = 0
        self.put = 0
        self._log = log
        self._process = process
        self._pieces: SimpleQueue[Sequence[bytes]] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)
        self._thread.start()

    def give(self, lines: Sequence[bytes]) -> None:
        """Have these lines sent. Returns at once: a sender whose server is away reads no more."""
        self.put += len(lines)
        self._pieces.put(lines)

    def take_half(self, of: int) -> None:
        """Return when half of the last `of` lines given were read, while the others are not."""
        deadline = time.monotonic() + TOOK_WITHIN_S
        while self.fed < self.put - of // 2:
            assert time.monotonic() < deadline, f"the sender read {self.fed} of {self.put} lines"
            assert self._process.poll() is None, self.words()
            time.sleep(0.001)

    def finish(self) -> str:
        """End the input; the sender's words once all counts."""
        self._pieces.put(())
        code = self._process.wait(SENT_WITHIN_S)
        assert code == 0, self.words()
        return self.words()

    def words(self) -> str:
        """What the sender said."""
        return self._log.read_text()

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):  # the sender ended: `take_half` and `finish` tell
            while lines := self._pieces.get():
                for first in range(0, len(lines), LINES_AT_ONCE):
                    some = lines[first : first + LINES_AT_ONCE]
                    pipe.write(b"".join(some))
                    pipe.flush()
                    self.fed += len(some)
            pipe.close()


@contextmanager
def feeding(setup: SetUp, *arguments: str) -> Iterator[Feed]:
    """A sender to this set-up that waits for its lines, and then until all of them count."""
    where = ("--to", setup.ingest.url, "--status", setup.control.url)
    with sending([*where, "--wait", *arguments], setup.folder) as process:
        yield Feed(process, setup.folder / "send.log")
