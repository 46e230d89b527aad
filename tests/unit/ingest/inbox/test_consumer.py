"""The inbox without its broker: no exception ends it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ingest.admission import AdmissionRules
from ingest.inbox.consumer import Inbox
from ingest.publisher import Publisher
from meterline.backends.clock import SystemClock
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.ports import Unavailable


async def test_no_exception_ends_the_inbox(tmp_path: Path) -> None:
    raised: list[Exception] = [
        ValueError("nobody thought of this"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ExceptionGroup("several", [KeyError("x")]),
        Unavailable("the broker"),
    ]
    reached = asyncio.Event()

    class Topics:
        async def check(self) -> None:
            if raised:
                raise raised.pop(0)
            reached.set()
            await asyncio.Event().wait()

        async def topic_ids(self) -> Mapping[str, str]:
            return {}

    log = open_sqlite_log(tmp_path, 4, SystemClock())
    publisher = Publisher(log, SystemClock())
    rules = AdmissionRules(4)
    inbox = Inbox("127.0.0.1:1", "g", {"t": "n"}, publisher, log, rules, Topics())
    with capture_logs() as lines:
        task = asyncio.create_task(inbox.run())
        async with asyncio.timeout(30):
            await reached.wait()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    told = [(line["action"], line["log_level"], "exc_info" in line) for line in lines]
    assert told == [
        ("failed", "error", True),
        ("undecodable", "warning", False),
        ("failed", "error", True),
        ("waits", "warning", False),
    ]
    await publisher.close()
    await log.close()
