"""`python -m tests.faults.day`: a day of 10,000,000 events with 20 kills -9 on the way; then the
totals are compared with the generator's own columns, and the audit must be clean.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, TaskID

from tests.faults.day_delivery import Delivery, account_of
from tests.faults.day_events import METERS, Day
from tests.faults.day_totals import audited, compared
from tests.faults.installation import Installation, installed, make_meters
from tests.faults.labels import LEASE_VARIABLE, SLICE_VARIABLE
from tests.faults.own_servers import own_servers
from tests.progress_bar import progress_bar

_SHOWN: Final = ("{task.completed:,} of {task.total:,}", "{task.fields[kills]} kills", 30)
EVENTS: Final = 10_000_000
STANDS_STILL_S: Final = 300.0
# How the product comes: nothing is shortened.
AS_IT_COMES: Final = {
    SLICE_VARIABLE: "",
    LEASE_VARIABLE: "",
    "METERLINE_PRODUCE_DEADLINE_MS": "",
    "METERLINE_DELIVERY_TIMEOUT_S": "",
    "METERLINE_FLUSH_INTERVAL_MS": "",
    "METERLINE_RETRY_DELAYS_S": "",
}
VICTIMS: Final = (
    *("aggregator-1", "aggregator-2") * 4,
    *("gateway-1", "gateway-2", "gateway-1", "gateway-2"),
    *("clickhouse",) * 3,
    *("kafka",) * 2,
    *("postgres",) * 2,
    "control",
)


def main() -> None:
    """See the module. Exits with 1 where anything differs."""
    asked = _asked()
    seed = asked.seed
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"a day of {asked.events:,} events, seed {seed}, {len(VICTIMS)} kills")
    day = Day(asked.events, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meterline-day-")))
        servers = stack.enter_context(own_servers())
        product = stack.enter_context(installed(servers, folder, AS_IT_COMES))
        product.start()
        make_meters(product.api, METERS)
        try:
            found = _lived(product, day, console)
        except AssertionError as error:
            found = [str(error), product.words()]
    for words in found[:20]:
        console.print(words, markup=False, highlight=False)
    if found:
        sys.exit(f"{len(found)} differences")
    console.print("totals equal those of the columns, the account holds, the audit is clean")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.day", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=20_260_105)
    return parser.parse_args()


def _lived(product: Installation, day: Day, console: Console) -> list[str]:
    """Send, kill, count, compare, audit; what differs, in words."""
    began_s = time.monotonic()
    delivery = Delivery(day, [one.url for one in product.those("gateway")])
    with progress_bar(console, *_SHOWN) as bar, delivery.running():
        task = bar.add_task("", total=day.events, kills=0)
        kills = _counted(product, delivery, random.Random(day.seed), bar, task)
    took_s = time.monotonic() - began_s
    told = ", ".join(f"{number} {name}" for name, number in kills.items())
    console.print(
        f"{day.events:,} events sent and counted in {took_s / 60:.1f} minutes,"
        f" {day.events / took_s:,.0f} events/s; {delivery.again:,} requests were sent again;"
        f" {kills.total()} kills: {told}",
        highlight=False,
    )
    began_s = time.monotonic()
    found = compared(product.api, day)
    console.print(f"compared in {time.monotonic() - began_s:.0f} s", highlight=False)
    began_s = time.monotonic()
    found += audited(product.api, product.folder, console)
    console.print(f"audited in {time.monotonic() - began_s:.0f} s", highlight=False)
    return found


def _counted(
    product: Installation, delivery: Delivery, rng: random.Random, bar: Progress, task: TaskID
) -> Counter[str]:
    """Return when all is counted; kill on the way, at even steps of the account."""
    events = delivery.day.events
    victims = list(VICTIMS)
    rng.shuffle(victims)
    due = [(n + 1) * events // (len(victims) + 1) for n in range(len(victims))]
    kills: Counter[str] = Counter()
    moved_s = time.monotonic()
    while True:
        assert not delivery.failure, delivery.failure
        counted, caught_up = account_of(product.api)
        if counted > delivery.counted:
            delivery.counted, moved_s = counted, time.monotonic()
        bar.update(task, completed=min(counted, events), kills=kills.total())
        all_in = delivery.acknowledged == events
        if all_in and caught_up and not victims:
            return kills
        assert time.monotonic() - moved_s < STANDS_STILL_S, f"it stands still at {counted:,}"
        while victims and (delivery.counted >= due[0] or (all_in and caught_up)):
            due.pop(0)
            victim = _killed(product, victims.pop(0))
            kills[victim] += 1
            words = f"{delivery.counted:,} counted, kill {kills.total()}: {victim}"
            bar.console.print(words, highlight=False)
        time.sleep(0.3)


def _killed(product: Installation, victim: str) -> str:
    if victim in product.slots:
        slot = product.slots[victim]
        slot.kill()
        slot.start()
        return victim[:-2] if victim[-1].isdigit() else victim
    assert product.servers is not None, "distributed"
    server = getattr(product.servers, victim)
    server.kill()
    server.start()
    return victim


if __name__ == "__main__":
    main()
