"""A share of `make faults`: a death at every step, a zombie, a lying connection, and controls.

It prints what it ran. The rest, and 300 kills, is in `python -m tests.faults`.
"""

import secrets
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults import borders, kills, stores
from tests.faults.bench import Bench, Judged, asked_meanwhile, benched
from tests.faults.installation import Servers, installed, installed_alone
from tests.faults.labels import (
    AGGREGATOR,
    DISPATCHER,
    DROPPED_MARK,
    Label,
    Without,
    environment_without,
)
from tests.faults.proxy import Mode
from tests.journey.receiver import Receiver, receiving
from tests.services.service import Service

ZOMBIE_S = 4.0
RATE = 600.0  # events a second
ASKED_EVERY_S = 1.0  # ten times as often, questions take more of a processor than all else
CONTROL_EVENTS = 10_000  # in slices of 400, so that copies come behind borders
CONTROL_WITHIN_S = 120.0


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory,
    receiver: Receiver,
    kafka_service: Service,
    clickhouse_service: Service,
    postgres_service: Service,
) -> Iterator[Bench]:
    seed = secrets.randbelow(1 << 32)
    servers = Servers(kafka_service, clickhouse_service, postgres_service)
    with (
        installed(servers, tmp_path_factory.mktemp("faults")) as product,
        benched(product, receiver, seed, say, RATE) as one,
        asked_meanwhile(one, ASKED_EVERY_S),
    ):
        say(f"seed {seed}")
        yield one


def told(judged: Judged) -> None:
    say(
        f"{judged.name}: {judged.kills} kills, zero lag after {judged.to_zero_lag_s:.1f} s,"
        f" {judged.events:,} events, 0 lost, 0 double"
    )


def test_a_death_at_every_step(bench: Bench) -> None:
    told(bench.under("aggregators die at every step", kills.aggregators_at_each(AGGREGATOR)))
    told(bench.under("a dispatcher dies at every step", kills.dispatcher_at_each(DISPATCHER)))
    assert set(bench.kills) >= {label.value for label in (*AGGREGATOR, *DISPATCHER)}


def test_a_death_when_a_slice_is_filled_in(bench: Bench) -> None:
    told(bench.under("an aggregator dies filling in", kills.filled_in(1)))
    assert bench.kills[Label.FILLED.value] == 1
    assert bench.twins == {"amounts_twin_0": "amounts"}


def test_committed_offsets_are_borders_and_a_killed_worker_goes_on_from_there(
    bench: Bench,
) -> None:
    told(bench.under("aggregators die between commits", borders.killed_between(2)))


def test_a_zombie_does_no_harm(bench: Bench) -> None:
    fault = kills.frozen_at("aggregator-1", "aggregator-3", Label.EVENTS, ZOMBIE_S)
    told(bench.under("a zombie", fault))


def test_an_answer_that_is_cut_off_after_the_effect(bench: Bench) -> None:
    for name in ("clickhouse", "postgres"):
        told(bench.under(f"{name} drops", stores.misbehaving(name, Mode.DROP, 3)))


def test_every_report_is_delivered(bench: Bench) -> None:
    assert bench.finish_reports() == []  # each fault looked; here the copies that came later
    assert bench.rig.deliveries >= len(bench.rig.asked)


CONTROLS: Mapping[str, tuple[Without, ...]] = {
    "a store that drops what it acknowledged": (Without.LOSSLESS_STORE,),
    "without the seen store": (Without.SEEN,),
    "without count-back, on such a store": (Without.LOSSLESS_STORE, Without.COUNT_BACK),
}
SURVIVED = "a store that drops what it acknowledged"  # what count-back is for


def control_run(folder: Path, receiver: Receiver, taken: tuple[Without, ...]) -> list[str]:
    """What the bench finds where a defence is taken away."""
    with (
        installed_alone(folder, environment_without(*taken)) as product,
        benched(product, receiver, 5, say, rate=1_000) as bench,
    ):
        bench.send(CONTROL_EVENTS, CONTROL_WITHIN_S)
        bench.settle()
        lossy = Without.LOSSLESS_STORE in taken
        words = product.slots["up"].service.log_path.read_text(errors="replace")
        assert (DROPPED_MARK in words) == lossy, "the store lied, where it was to"
        return bench.differences()


@pytest.fixture(scope="module")
def controls(
    tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Mapping[str, list[str]]:
    folders = [tmp_path_factory.mktemp("control") for _ in CONTROLS]
    with ThreadPoolExecutor(len(CONTROLS)) as threads:
        found = threads.map(
            lambda folder, taken: control_run(folder, receiver, taken), folders, CONTROLS.values()
        )
        return dict(zip(CONTROLS, found, strict=True))


@pytest.mark.parametrize("name", CONTROLS)
def test_the_bench_bites(controls: Mapping[str, list[str]], name: str) -> None:
    found = controls[name]
    say(f"{name}: {len(found)} differences, as {found[:1]}")
    assert (not found) == (name == SURVIVED), found[:5]
