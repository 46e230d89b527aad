"""Every fault of a start is one line: what is wrong and what to do; code 1. Real processes."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journey.processes import PROGRAM
from tests.journey.refusal import refusal
from tests.journey.setups import embedded, telling
from tests.journey.test_lost_store import EVENTS, counted, send
from tests.services.local import free_port, nobody_at

pytestmark = pytest.mark.standard

Damage = Callable[[Path], None]


def rubbish(name: str, at: int, size: int) -> Damage:
    """Bytes that mean nothing in the middle of a file."""

    def act(data: Path) -> None:
        with (data / name).open("r+b") as file:
            file.seek(at)
            file.write(b"\xa5" * size)

    return act


def written(name: str, content: bytes) -> Damage:
    """A file with this content, in place of whatever has its name."""

    def act(data: Path) -> None:
        path = data / name
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(content)

    return act


def folder(name: str) -> Damage:
    """A folder in place of a file."""

    def act(data: Path) -> None:
        (data / name).unlink()
        (data / name).mkdir()

    return act


def whole(data: Path) -> None:
    """A file in place of the data folder."""
    shutil.rmtree(data)
    data.write_bytes(b"")


REPORT = {
    "slug": "daily",
    "meter_id_or_key": "calls",
    "type": "webhook",
    "schedule": {"interval": "1d", "start_at": "2099-01-01T00:00:00Z"},
    "endpoint": {"url": "https://receiver.example/usage"},
}
FAULTS: dict[str, tuple[Damage, str]] = {
    "control.db header": (rubbish("control.db", 0, 100), "the file control.db is damaged"),
    "control.db pages": (rubbish("control.db", 4096, 81_920), "the file control.db is damaged"),
    "control.db empty": (written("control.db", b""), "the control store is new"),
    "control.db a folder": (folder("control.db"), "control store: unable to open database file"),
    "log header": (rubbish("log/log.sqlite", 0, 100), "is damaged: restore its newest backup"),
    "log a file": (written("log", b"x"), "a folder is expected here"),
    "key of rubbish": (written("secret.key", bytes(range(200, 210))), "secret.key is damaged"),
    "key too short": (written("secret.key", b"abcdefghij"), "secret.key is damaged"),
    "key empty": (written("secret.key", b""), "secret.key is damaged"),
    "key a folder": (folder("secret.key"), "a file is expected here"),
    "key gone": (lambda data: (data / "secret.key").unlink(), "secret.key is gone, and secrets"),
    "key of another": (written("secret.key", b"k" * 44), "the file secret.key has changed"),
    "usage a file": (written("usage", b"x"), "cannot be opened as a store"),
    "seen a file": (written("seen", b"x"), "a folder is expected here"),
    "data a file": (whole, "a folder is expected here"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder that events were counted in, of a process that was stopped."""
    setup = embedded(tmp_path_factory.mktemp("good"))
    try:
        with telling(setup):
            setup.start()
            send(setup)
            meter = {"key": "calls", "name": "c", "aggregation": "count", "event_type": "call"}
            setup.control.made("/api/v3/metering/meters", meter)
            setup.control.made("/api/v3/metering/reports", REPORT)
            setup.processes["up"].stop()  # by SIGTERM: nothing is left in SQLite's journals
        yield setup.folder / "data"
    finally:
        setup.kill()


@pytest.fixture
def data(good: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(good, tmp_path / "data", symlinks=True))


def settings(data: Path) -> dict[str, str]:
    return {"METERLINE_DATA_DIR": str(data), "METERLINE_PORT": str(free_port())}


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_folder_is_told_in_one_line(name: str, data: Path, tmp_path: Path) -> None:
    damage, words = FAULTS[name]
    damage(data)
    assert words in refusal([str(PROGRAM), "up"], tmp_path, settings(data))


def test_a_key_that_is_lost_for_good_can_be_given_up(data: Path, tmp_path: Path) -> None:
    (data / "secret.key").unlink()
    place = tmp_path / "again"
    place.mkdir()
    data.rename(place / "data")
    setup = embedded(place, {"METERLINE_SECRET_KEY_LOST": "true"})
    try:
        with telling(setup):
            setup.start()
            rotation = {"overlap_seconds": 0}
            path = "/api/v3/metering/reports/daily/secret/rotate"
            assert setup.control.ask("POST", path, rotation).status == 200
            setup.processes["up"].stop()
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.listen()
            taken = {"METERLINE_PORT": str(held.getsockname()[1])}
            line = refusal([str(PROGRAM), "up"], tmp_path, {**settings(place / "data"), **taken})
        assert "cannot listen on" in line, "the key is right again"
    finally:
        setup.kill()


def test_a_port_or_an_address_that_cannot_be_had_is_told(data: Path, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        taken = {**settings(data), "METERLINE_PORT": str(held.getsockname()[1])}
        line = refusal([str(PROGRAM), "up"], tmp_path, taken)
    assert "cannot listen on 127.0.0.1" in line
    assert "set host and port to a free address" in line


def test_a_server_that_does_not_come_ends_a_start(tmp_path: Path) -> None:
    with nobody_at() as port:
        given = {
            "METERLINE_DATA_DIR": str(tmp_path),
            "METERLINE_CONTROL_URL": f"postgresql://user:hidden@127.0.0.1:{port}/base",
            "METERLINE_START_TIMEOUT_S": "1",
        }
        line = refusal([str(PROGRAM), "migrate"], tmp_path, given)
    assert line == (
        f"meterline: PostgreSQL at 127.0.0.1:{port}: connection refused. Gave up after 1 s"
        " (start_timeout_s). Start it, or correct control_url, then start again"
    )


def test_a_damaged_seen_store_is_set_aside_and_rebuilt(data: Path, tmp_path: Path) -> None:
    damaged = list((data / "seen").rglob("CURRENT"))
    assert damaged
    for path in damaged:
        path.write_bytes(os.urandom(8))
    place = tmp_path / "again"
    place.mkdir()
    setup = embedded(place)
    data.rename(place / "data")
    try:
        with telling(setup):
            setup.start()
            send(setup)  # all of them copies
            assert counted(setup) == EVENTS
            assert "seen_store_damaged" in setup.logs()
        assert len(list((place / "data" / "seen").rglob("*.damaged-1"))) == len(damaged)
    finally:
        setup.kill()
