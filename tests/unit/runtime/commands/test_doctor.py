"""The rules of the doctor."""

import pytest

from meterline.runtime.commands.doctor.finding import Level, of_clock, of_rights, of_version


@pytest.mark.parametrize("theirs_ms", [9_000, 10_000, 10_050, 10_100, 11_100])
def test_clocks_that_agree_within_the_skew(theirs_ms: int) -> None:
    assert of_clock("PostgreSQL", theirs_ms, (10_000, 10_100), 1_000).level is Level.OK


@pytest.mark.parametrize(
    ("theirs_ms", "text"), [(8_999, "1001 ms behind"), (11_101, "1001 ms ahead of")]
)
def test_clocks_that_do_not(theirs_ms: int, text: str) -> None:
    finding = of_clock("PostgreSQL", theirs_ms, (10_000, 10_100), 1_000)
    assert finding.level is Level.FAULT
    assert f"its clock is {text} this machine's, and clock_skew_ms is 1000" in finding.text


@pytest.mark.parametrize(
    ("part", "version", "level"),
    [
        ("ClickHouse", "26.7.2.1", Level.OK),
        ("ClickHouse", "27.1", Level.OK),
        ("ClickHouse", "26.3.1", Level.WARNING),
        ("PostgreSQL", "18.4", Level.OK),
        ("PostgreSQL", "15.12", Level.WARNING),
    ],
)
def test_versions(part: str, version: str, level: Level) -> None:
    assert of_version(part, version).level is level


def test_rights_are_named_with_what_to_do() -> None:
    assert of_rights("Kafka", [], "topic t", "add them").level is Level.OK
    finding = of_rights("Kafka", ["WRITE", "READ"], "topic t", "add them")
    assert finding.line == "fault    Kafka       the user may not READ, WRITE topic t: add them"
