"""Every fault of the bench, by name."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.faults import borders, erasing, kills, stores
from tests.faults.kills import Fault
from tests.faults.labels import AGGREGATOR, DISPATCHER, ERASING, Label
from tests.faults.proxy import Mode

KILLS_EACH: Final = 4  # of each aggregator, a step and round; the dispatcher has twice as many
ZOMBIE_S: Final = 60.0
AWAY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, and whether it is brought about in every round or, since it takes long, in one."""

    fault: Fault
    every_round: bool = True


def _labelled() -> dict[str, Case]:
    aggregators = {
        f"aggregators killed: {label.value}": Case(kills.aggregators_at(label, KILLS_EACH))
        for label in AGGREGATOR
    }
    dispatchers = {
        f"dispatcher killed: {label.value}": Case(kills.dispatcher_at(label, 2 * KILLS_EACH))
        for label in DISPATCHER
    }
    return aggregators | dispatchers


def _frozen() -> dict[str, Case]:
    zombies = {
        "aggregator-1": ("aggregator-3", (Label.EVENTS, Label.TALLIES, Label.SEALED)),
        "dispatcher-1": ("dispatcher-2", (Label.STAGED, Label.SIGNED)),
    }
    found = {
        f"{place} frozen for a minute: {label.value}": Case(
            kills.frozen_at(place, stand_in, label, ZOMBIE_S), every_round=False
        )
        for place, (stand_in, labels) in zombies.items()
        for label in labels
    }
    found["aggregator-2 frozen for 8 seconds"] = Case(kills.frozen("aggregator-2", 8))
    return found


def _proxied() -> dict[str, Case]:
    words = {
        Mode.REFUSE: "refuses",
        Mode.RESET: "resets",
        Mode.HANG: "hangs",
        Mode.DROP: "answers after the commit, cut off",
    }
    return {
        f"{name} {told}": Case(stores.misbehaving(name, mode, 8.0))
        for name in ("clickhouse", "postgres")
        for mode, told in words.items()
    }


def _erasing() -> dict[str, Case]:
    killed = {
        f"erasure, aggregators killed: {label.value}": Case(erasing.killed_at(label))
        for label in ERASING
    }
    beside = {
        "clickhouse killed": kills.server_killed("clickhouse", 2),
        "postgres killed": kills.server_killed("postgres", 2),
        "clickhouse answers after the effect, cut off": stores.misbehaving(
            "clickhouse", Mode.DROP, 8.0
        ),
        "postgres answers after the commit, cut off": stores.misbehaving(
            "postgres", Mode.DROP, 8.0
        ),
        "clickhouse hangs": stores.misbehaving("clickhouse", Mode.HANG, 8.0),
        "seen stores lost": stores.seen_lost,
    }
    frozen = {
        f"erasure, aggregator-1 frozen: {label.value}": Case(
            erasing.frozen_at(label, AWAY_S), every_round=False
        )
        for label in (Label.ERASURE_COPIED, Label.ERASURE_DELETED)
    }
    others = {f"erasure, {name}": Case(erasing.beside(fault)) for name, fault in beside.items()}
    return killed | others | frozen


CASES: Final[Mapping[str, Case]] = {
    **_labelled(),
    "aggregators killed: slice filled in": Case(kills.filled_in(KILLS_EACH), every_round=False),
    "aggregators killed: between commits": Case(borders.killed_between(KILLS_EACH)),
    "gateways killed under load": Case(kills.doors_killed(8)),
    "processes killed at random": Case(
        kills.killed_at_random(("aggregator-1", "aggregator-2", "dispatcher-1"), 8)
    ),
    "kafka killed and restarted": Case(kills.server_killed("kafka")),
    "clickhouse killed and restarted": Case(kills.server_killed("clickhouse", 2)),
    "postgres killed and restarted": Case(kills.server_killed("postgres", 2)),
    "kafka silent for 30 seconds": Case(kills.broker_frozen(AWAY_S), every_round=False),
    **_proxied(),
    "clickhouse: connections cut now and then": Case(stores.cut_now_and_then("clickhouse", 5)),
    "postgres: connections cut now and then": Case(stores.cut_now_and_then("postgres", 5)),
    "aggregators come and go": Case(kills.coming_and_going(4, (2, 6)), every_round=False),
    "seen stores lost": Case(stores.seen_lost),
    "seen stores of yesterday": Case(stores.seen_of_yesterday),
    **_frozen(),
    **_erasing(),
}


def chosen(rng: random.Random, rounds: int, only: str) -> list[tuple[str, Case]]:
    """The cases of a run, in an order drawn from its seed; slow ones once."""
    named = {name: case for name, case in CASES.items() if only in name}
    plan: list[tuple[str, Case]] = []
    for number in range(rounds):
        these = [(n, case) for n, case in named.items() if case.every_round or number == 0]
        rng.shuffle(these)
        plan += these
    return plan
