"""The rules find what they look for, and let the rest be."""

import pytest

from tests.tidy import rules

SHORT = "def f():\n" + "    x = 1\n" * 59
LONG = "class C:\n    async def f(self):\n" + "        x = 1\n" * 60


def test_lengths_are_counted_to_the_line() -> None:
    assert not list(rules.function_length(SHORT))
    assert list(rules.function_length(LONG)) == ["line 2: f has 61 lines, 60 max"]
    assert not list(rules.file_length("control/a.py", "\n" * 400))
    assert list(rules.file_length("control/a.py", "\n" * 401))
    assert not list(rules.file_length(rules.ONE_LIST, "\n" * 401))


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("meterline/utils.py", True),
        ("ingest/common/x.py", True),
        ("control/manager.py", True),
        ("ingest/base64_text.py", False),
        ("meterline/window.py", False),
    ],
)
def test_names(path: str, bad: bool) -> None:
    assert bool(list(rules.banned_name(path))) is bad


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.time()",
        "import time as t\nx = t.monotonic()",
        "from time import monotonic_ns",
        "import time\nfield(default_factory=time.time)",
        "from datetime import datetime\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "import datetime as dt\ndt.date.today()",
    ],
)
def test_a_clock_read_is_found_outside_the_clock(source: str) -> None:
    assert list(rules.clock_read("ingest/gateway.py", source))
    assert not list(rules.clock_read("meterline/backends/clock.py", source))
    assert not list(rules.clock_read("tests/unit/test_x.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "clock.time()",
        "run.today()",
    ],
)
def test_other_uses_of_time_are_no_clock_read(source: str) -> None:
    assert not list(rules.clock_read("ingest/gateway.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "from unittest.mock import patch",
        "from unittest import mock",
        "import unittest.mock",
        "import mock",
        "def test(monkeypatch):\n    monkeypatch.setattr(a, 'b', c)",
    ],
)
def test_mocks_are_found(source: str) -> None:
    assert list(rules.mock_used(source))


def test_setting_a_variable_is_no_mock() -> None:
    assert not list(rules.mock_used("def test(monkeypatch):\n    monkeypatch.setenv('A', 'b')"))


def test_print_is_for_people() -> None:
    assert list(rules.print_used("ingest/gateway.py", "print('x')"))
    assert not list(rules.print_used("ingest/gateway.py", "out.print('x')"))
    assert not list(rules.print_used("meterline/runtime/cli.py", "print('x')"))


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("see https://py" + "pi.org/simple", True),
        ("registry." + "npmjs.org", True),
        ("cd /wo" + "rk/main", True),
        ("/ro" + "ot/.cache", True),
        ("a/wo" + "rk/b", False),
        ("https://example.org/wo" + "rk/", False),
    ],
)
def test_foreign_places(text: str, bad: bool) -> None:
    assert bool(list(rules.foreign_place(text))) is bad


def test_ports_hold_shapes() -> None:
    good = (
        "from typing import Protocol\nclass P(Protocol):\n    ...\nclass Gone(Exception):\n    ..."
    )
    assert not list(rules.more_than_protocols(good))
    assert list(rules.more_than_protocols("def f(): ..."))
    assert list(rules.more_than_protocols("class C: ..."))


def test_a_crowded_folder_is_found() -> None:
    paths = [f"control/v9/part_of_{number}/x.py" for number in range(16)]
    paths += ["control/v9/__init__.py", "tests/unit/x.py"]
    assert list(rules.crowded_folders(paths[1:])) == []
    assert list(rules.crowded_folders(paths)) == [
        ("control/v9", "16 entries, at most 15: make a folder of a noun")
    ]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["meterline/report/report.py", "meterline/report/body.py"], []),
        (["meterline/report/report_body.py"], ["meterline/report/report_body.py"]),
        (["control/v9/reports/report_body.py"], ["control/v9/reports/report_body.py"]),
        (["control/v9/key_a.py", "control/v9/key_b.py"], []),
        (["control/v9/key_a.py", "control/v9/key_b.py", "control/v9/key_c.py"], ["control/v9"]),
        (["tests/report/report_body.py"], []),
    ],
)
def test_a_name_that_repeats_its_folder_is_found(paths: list[str], found: list[str]) -> None:
    assert [path for path, _ in rules.repeated_folder_names(paths)] == found


@pytest.mark.parametrize(
    ("body", "bad"),
    [
        ("a = time.monotonic()\n act()\n assert time.monotonic() - a < 2", True),
        ("a = time.perf_counter()\n took = time.perf_counter() - a\n assert took <= 2", True),
        ("a = perf_counter()\n assert 2 > perf_counter() - a", True),
        ("a = time.monotonic()\n took = time.monotonic() - a\n assert 0 < took <= 5, took", True),
        ("a = time.monotonic()\n assert time.monotonic() - a >= 1", True),
        ("a = loop.time()\n assert loop.time() - a < 2", False),
        ("a = time.process_time()\n assert time.process_time() - a < 2", False),
        ("a = time.monotonic()\n print(time.monotonic() - a)", False),
    ],
)
def test_a_test_that_asserts_wall_time_is_found(body: str, bad: bool) -> None:
    assert bool(list(rules.wall_time_asserted(f"def test_it():\n {body}\n"))) is bad


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("return msgspec.json.decode(text, type=Report)", True),
        ("return msgspec.json.decode(text, type=list[Report])", True),
        ("return msgspec.convert(text, reports.Report)", True),
        ("decoder = msgspec.msgpack.Decoder(Report)", True),
        ("return msgspec.json.decode(text, type=dict[str, msgspec.Raw])", False),
        ("return msgspec.json.decode(text)", False),
        ("return msgspec.convert(text, bytes)", False),
        ("return _reports.decode(text)", False),
    ],
)
def test_a_type_that_is_learned_late_is_found(line: str, bad: bool) -> None:
    path, source = "dispatcher/x.py", f"def read(text):\n    {line}\n"
    assert bool(list(rules.learned_late(path, source))) is bad
    assert not list(rules.learned_late(f"tests/{path}", source))
    assert not list(rules.learned_late(path, "_all = msgspec.json.Decoder(Report)\n"))
