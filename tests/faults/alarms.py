"""What an operator sees of each fault: the metric that shows it and the alert that names it. The
page docs/faults.md is made from this (`python -m docs.fault_table`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

FIRES_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """Faults of one kind, by patterns of their names, and how they show.

    `lasts_s`: a fault that is over before does not fire the alert, for the rule waits longer than
    that; None: any fires it.
    """

    faults: tuple[str, ...]
    what: str
    metric: str
    alert: str
    lasts_s: float | None = None

    def names(self, fault: str) -> bool:
        """Whether a fault is of this kind."""
        return any(fnmatchcase(fault, pattern) for pattern in self.faults)


# A rule that waits for 30 s of `rate(...[2m])` fires for faults of some seconds: the rate stays up
# for two minutes. One that waits for a minute of a state needs that state for as long, and 15 s
# more until it is scraped. A store that hangs fails no statement before the statement is given up,
# after 60 s (`usage_timeout_s`, `control_timeout_s`). But each process asks its stores every 10 s,
# and counts what is not answered in 3 s: two rounds of four processes, and the 30 s of the rule.
ALARMS: Final = (
    Alarm(
        (
            "aggregators killed: *",
            "dispatcher killed: *",
            "gateways killed under load",
            "processes killed at random",
            "aggregators come and go",
            "erasure, aggregators killed: *",
            "seen stores lost",
            "seen stores of yesterday",
            "erasure, seen stores lost",
        ),
        "a process is killed and started again",
        "process_start_time_seconds",
        "MeterlineProcessRestarted",
    ),
    Alarm(
        ("* frozen *", "erasure, aggregator-1 frozen: *"),
        "a process stands still and answers nothing",
        "up",
        "MeterlineProcessDown",
        lasts_s=75.0,
    ),
    Alarm(
        ("kafka killed and restarted", "kafka silent for 30 seconds"),
        "Kafka is away: appends fail, and requests with events get 503",
        "meterline_http_requests_total",
        "MeterlineServerErrors",
        lasts_s=10.0,
    ),
    Alarm(
        ("*clickhouse hangs", "postgres hangs"),
        "a store takes statements and never answers: probes fail after 3 s",
        "meterline_store_errors_total",
        "MeterlineStoreErrors",
        lasts_s=60.0,
    ),
    Alarm(
        ("*clickhouse *", "clickhouse: *", "*postgres *", "postgres: *"),
        "a store refuses, cuts connections, or is started again",
        "meterline_store_errors_total",
        "MeterlineStoreErrors",
        lasts_s=10.0,
    ),
    Alarm(
        (
            "retention passes the lag",
            "topic made anew",
            "log restored to an older state",
            "log restored, and grown past its old end",
        ),
        "the log is not what was counted: an aggregator says so and ends",
        "up",
        "MeterlineProcessDown",
        lasts_s=75.0,
    ),
)


def alarm_of(fault: str) -> Alarm:
    """How a fault shows: the first kind that names it. Raises `LookupError`."""
    return next(iter(_of(fault)), None) or _unknown(fault)


def _of(fault: str) -> Iterator[Alarm]:
    return (it for it in ALARMS if it.names(fault))


def _unknown(fault: str) -> Alarm:
    raise LookupError(f"{fault!r}: name the metric and the alert that show it in ALARMS")
