"""Several gateways on one port: replaced under load, or killed, they lose nothing."""

import asyncio
import http.client
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from meterline.backends.kafka.log import open_kafka_log
from meterline.event import Event, decode_record
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, role_process
from tests.services.local import LocalService, free_port, nobody_at, spawned

EVENTS = "/api/v3/metering/events"
ONE = {"Content-Type": "application/cloudevents+json"}
WORKERS = 2
SENDERS = 6
PARTITIONS = 4
WITHIN_S = 180.0
RETENTION_MS = 7 * 86_400_000


class Sender:
    """Sends one event after the other on a connection that it keeps as long as answers let it."""

    def __init__(self, number: int, port: int) -> None:
        self.accepted: list[str] = []
        self.failed: list[str] = []
        self._number = number
        self._port = port
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._send_all)

    @contextmanager
    def sending(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._leave.set()
            self._thread.join()

    def _send_all(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        for count in range(1_000_000):
            if self._leave.is_set():
                break
            name = f"{self._number}-{count}"
            event = {"specversion": "1.0", "id": name, "source": "w", "type": "t", "subject": "u"}
            try:
                connection.request("POST", EVENTS, json.dumps(event), ONE)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
                connection.close()
                continue
            if answer.status == 202:
                self.accepted.append(name)
            else:
                self.failed.append(str(answer.status))
        connection.close()


class Gateways:
    """A parent and its workers, on a topic of their own, with senders."""

    def __init__(self, folder: Path, kafka: str) -> None:
        self.topic = f"workers_{secrets.token_hex(4)}"
        self.kafka = kafka
        self.port = free_port()
        settings = {
            "METERLINE_LOG_URL": f"kafka://{kafka}",
            "METERLINE_LOG_TOPIC": self.topic,
            "METERLINE_PARTITIONS": str(PARTITIONS),
        }
        command = ["ingest", "--workers", str(WORKERS)]
        self.process: LocalService = role_process(
            "ingest", command, folder / "ingest", self.port, settings, begin=spawned
        )
        self.senders = [Sender(number, self.port) for number in range(SENDERS)]

    @property
    def workers(self) -> set[int]:
        return {child.pid for child in psutil.Process(self.process.pid).children()}

    @property
    def accepted(self) -> list[str]:
        return [name for sender in self.senders for name in sender.accepted]

    @property
    def failed(self) -> list[str]:
        return [reason for sender in self.senders for reason in sender.failed]

    def more_are_accepted(self) -> None:
        """A while of load, for each sender."""
        before = [len(sender.accepted) for sender in self.senders]
        pairs = list(zip(self.senders, before, strict=True))
        until(
            "every sender is answered",
            WITHIN_S,
            lambda: all(len(sender.accepted) > count + 20 for sender, count in pairs),
        )

    def in_log(self) -> list[str]:
        """Ids of all events of the log, in order of partitions."""

        async def read() -> list[str]:
            log = await open_kafka_log(self.kafka, self.topic, PARTITIONS, RETENTION_MS)
            found: list[str] = []
            for partition in range(PARTITIONS):
                offset = 0
                while records := await log.read(partition, offset, 1_000):
                    for record in records:
                        events = decode_record(record)
                        found += [event.id for event in events if isinstance(event, Event)]
                    offset = records[-1].offset + 1
            await log.close()
            return found

        return asyncio.run(read())


@pytest.fixture
def gateways(tmp_path: Path, kafka: str) -> Iterator[Gateways]:
    made = Gateways(tmp_path, kafka)
    try:
        made.process.start()
        until("all workers run", WITHIN_S, lambda: len(made.workers) == WORKERS)
        yield made
    finally:
        made.process.kill()


def test_workers_are_replaced_under_load_without_one_refused_or_lost_request(
    gateways: Gateways,
) -> None:
    with ExitStack() as stack:
        for sender in gateways.senders:
            stack.enter_context(sender.sending())
        gateways.more_are_accepted()
        for _ in range(2):
            before = gateways.workers
            os.kill(gateways.process.pid, signal.SIGHUP)
            until(
                "other workers have taken their places",
                WITHIN_S,
                lambda before=before: (  # type: ignore[misc]
                    len(gateways.workers) == WORKERS and not gateways.workers & before
                ),
            )
            gateways.more_are_accepted()
        text = Server(f"http://127.0.0.1:{gateways.port}").get("/metrics").body.decode()
    assert not gateways.failed
    sent = gateways.accepted
    assert sorted(gateways.in_log()) == sorted(sent)
    counted = re.findall(
        r'^meterline_ingest_events_total\{outcome="accepted",worker="(\d)"\}', text, re.MULTILINE
    )
    assert sorted(counted) == ["0", "1"]
    assert len(re.findall(r"^process_start_time_seconds\{", text, re.MULTILINE)) == WORKERS
    assert text.count("# TYPE meterline_ingest_events_total ") == 1


def test_a_worker_that_is_killed_is_replaced_and_the_end_leaves_none(gateways: Gateways) -> None:
    with ExitStack() as stack:
        for sender in gateways.senders:
            stack.enter_context(sender.sending())
        gateways.more_are_accepted()
        before = gateways.workers
        os.kill(min(before), signal.SIGKILL)
        until("there are as many", WITHIN_S, lambda: len(gateways.workers - before) == 1)
        gateways.more_are_accepted()
    # Requests under way at the one that was killed: at most one for each sender, and no status.
    assert len(gateways.failed) <= SENDERS
    assert not [reason for reason in gateways.failed if reason.isdecimal()]
    assert set(gateways.accepted) <= set(gateways.in_log())
    workers = [psutil.Process(pid) for pid in gateways.workers]
    os.kill(gateways.process.pid, signal.SIGTERM)
    until("it has ended", WITHIN_S, lambda: gateways.process.ended() is not None)
    assert gateways.process.ended() == 0
    assert not psutil.wait_procs(workers, timeout=0)[1]


def refused(folder: Path, **settings: str) -> tuple[int, str]:
    """Exit code and words of a parent that cannot start."""
    done = subprocess.run(
        [str(PROGRAM), "ingest", "--workers", "2"],
        cwd=folder,
        env={**os.environ, **{f"METERLINE_{name}": value for name, value in settings.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    return done.returncode, done.stderr


def test_what_keeps_workers_from_starting_is_said(tmp_path: Path) -> None:
    with nobody_at() as away, socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, told = refused(tmp_path, LOG_URL=f"kafka://127.0.0.1:{away}", PORT=port)
        assert code == 1
        assert f"meterline: cannot listen on 127.0.0.1:{port} (Address already in use)" in told
        given = {"LOG_URL": f"kafka://127.0.0.1:{away}", "START_TIMEOUT_S": "1", "PORT": "0"}
        code, told = refused(tmp_path, **given)
        assert code == 1
        assert "meterline: Kafka at 127.0.0.1:" in told
    code, told = refused(tmp_path, LOG_URL="sqlite")
    assert code == 2
    assert "workers (variable METERLINE_WORKERS), from --workers: needs Kafka" in told


def test_a_start_that_waits_for_kafka_can_be_stopped(tmp_path: Path) -> None:
    with nobody_at() as away:
        settings = {"METERLINE_LOG_URL": f"kafka://127.0.0.1:{away}", "METERLINE_PORT": "0"}
        with subprocess.Popen(
            [str(PROGRAM), "ingest", "--workers", "2"],
            cwd=tmp_path,
            env={**os.environ, **settings},
            stderr=subprocess.PIPE,
            text=True,
        ) as parent:
            assert parent.stderr is not None
            for line in parent.stderr:
                if "event=waiting" in line:
                    break
            parent.send_signal(signal.SIGTERM)
            parent.stderr.read()
            assert parent.wait(WITHIN_S) == 0
