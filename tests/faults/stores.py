"""Faults of the stores: proxies that misbehave, seen stores that are lost or of yesterday."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.proxy import Mode
from tests.faults.slot import Slot
from tests.journey.deadline import until

Fault = Callable[[Bench], None]

GROWS_S = 8.0
BITES_WITHIN_S = 60.0  # a slow machine may write nothing for seconds


def misbehaving(name: str, mode: Mode, seconds: float) -> Fault:
    """ClickHouse or PostgreSQL misbehaves for a while, as aggregators and dispatcher see it."""

    def fault(bench: Bench) -> None:
        proxy = bench.product.proxies[name]
        if mode is not Mode.DROP:
            time.sleep(1)
        dropped, hit = proxy.dropped, proxy.hit
        with proxy.being(mode):
            time.sleep(seconds)
            if mode is Mode.DROP:
                until("an answer is cut off", BITES_WITHIN_S, lambda: proxy.dropped > dropped)
        if mode is Mode.DROP:
            cut = proxy.dropped - dropped
            bench.bites.book("answers cut off after the effect", cut)
            bench.notes.append(f"{cut} answers were cut off after the effect")
        else:
            bench.bites.book(f"connections met by {mode.value}", proxy.hit - hit)

    return fault


def cut_now_and_then(name: str, times: int) -> Fault:
    """Every connection is cut, again and again."""

    def fault(bench: Bench) -> None:
        proxy = bench.product.proxies[name]
        hit = proxy.hit
        for _ in range(times):
            with proxy.being(Mode.RESET):
                time.sleep(bench.rng.uniform(0.1, 0.5))
            time.sleep(bench.rng.uniform(0.5, 2.0))
        bench.bites.book("connections cut", proxy.hit - hit)

    return fault


def seen_lost(bench: Bench) -> None:
    """Both aggregators lose their seen stores."""
    time.sleep(GROWS_S / 2)
    for slot in bench.product.those("aggregator"):
        slot.kill()
        bench.kills["at random"] += 1
        shutil.rmtree(slot.folder / "seen")
        bench.bites.book("a seen store removed")
        slot.start()


def seen_of_yesterday(bench: Bench) -> None:
    """Both aggregators come back with older copies of their seen stores."""
    kept = []
    for slot in bench.product.those("aggregator"):
        slot.kill()
        bench.kills["at random"] += 1
        kept.append(_copied(slot))
        slot.start()
    time.sleep(GROWS_S)
    for slot, copy in zip(bench.product.those("aggregator"), kept, strict=True):
        slot.kill()
        bench.kills["at random"] += 1
        shutil.rmtree(slot.folder / "seen")
        copy.rename(slot.folder / "seen")
        bench.bites.book("a seen store put back")
        slot.start()


def _copied(slot: Slot) -> Path:
    copy = slot.folder / "seen-copy"
    with suppress(FileNotFoundError):
        shutil.rmtree(copy)
    shutil.copytree(slot.folder / "seen", copy)
    return copy
