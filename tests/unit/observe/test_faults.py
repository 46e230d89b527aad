"""Each fault of `make faults` has a metric that shows it and an alert that names it."""

import math

import pytest

from meterline.limits import METRIC_ASK_S, STATUS_PART_TIMEOUT_S
from tests.faults.alarms import ALARMS, FIRES_WITHIN_S, Alarm, alarm_of
from tests.faults.cases import CASES
from tests.faults.held import HELD
from tests.faults.unsurvivable import ENDS
from tests.faults.watch import ASKED, Watch
from tests.unit.observe.promql import labels_of, seconds
from tests.unit.observe.rules import RULES
from tests.unit.observe.test_names import EXPORTED, OF_OTHERS


@pytest.mark.parametrize("fault", [*CASES, *ENDS])
def test_each_fault_has_an_alarm(fault: str) -> None:
    assert alarm_of(fault).names(fault)


def test_a_fault_without_a_row_is_found() -> None:
    with pytest.raises(LookupError, match="ALARMS"):
        alarm_of("the moon falls")


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda it: it.what)
def test_each_alarm_is_an_alert_on_its_metric(alarm: Alarm) -> None:
    rule = RULES[alarm.alert]
    assert alarm.metric in rule["expr"]
    assert alarm.metric in EXPORTED.keys() | OF_OTHERS
    assert alarm.metric in ASKED
    if alarm.lasts_s is not None and "rate(" not in rule["expr"]:
        assert alarm.lasts_s > seconds(rule["for"])
    for pattern in alarm.faults:
        assert [it for it in (*CASES, *ENDS) if Alarm((pattern,), "", "", "").names(it)], pattern


def test_a_fault_of_each_kind_is_held() -> None:
    assert {alarm_of(name) for name in HELD} == set(ALARMS)
    assert HELD.keys() <= CASES.keys() | ENDS.keys()


def test_a_watch_tells_when_an_alert_fired_and_cleared() -> None:
    watch = Watch([])
    up = labels_of('up{job="meterline",instance="aggregator-1"}')
    watch.series[up] = [(float(at), float(not 1_000 <= at < 1_100)) for at in range(500, 1_500, 5)]
    found = watch.alarmed(("log restored to an older state", 1_000.0, 1_100.0), 1_499.0)
    assert (found.fired_s, found.cleared_s, found.before) == (60, 100, False)
    assert "fired after 60 s, silent after 100 s" in found.words
    short = watch.alarmed(("aggregator-2 frozen for 8 seconds", 1_200.0, 1_208.0), 1_499.0)
    assert short.fired_s is None
    assert "needs 75 s" in short.words
    late = watch.alarmed(("log restored to an older state", 1_400.0, 1_480.0), 1_499.0)
    assert "was not watched long enough: 99 s" in late.words
    whole = watch.alarmed(("log restored to an older state", 1_200.0, 1_280.0), 1_499.0)
    assert "DID NOT FIRE within 120 s" in whole.words
    began = labels_of('process_start_time_seconds{job="meterline",instance="a"}')
    watch.series[began] = [
        (float(at), math.nan if 1_000 <= at < 1_020 else float(at >= 1_020))
        for at in range(500, 1_500, 5)
    ]
    killed = watch.alarmed(("processes killed at random", 1_000.0, 1_010.0), 1_499.0)
    assert (killed.fired_s, killed.cleared_s) == (20, 300)


@pytest.mark.parametrize("fault", [it for it in CASES if it.endswith("hangs")])
def test_a_store_that_hangs_shows_by_what_readiness_asks(fault: str) -> None:
    alarm = alarm_of(fault)
    two_rounds_s = 2 * METRIC_ASK_S + STATUS_PART_TIMEOUT_S
    assert alarm.lasts_s is not None
    waits_s = seconds(RULES[alarm.alert]["for"])
    assert two_rounds_s + waits_s < alarm.lasts_s <= FIRES_WITHIN_S / 2
