"""`meterline reconcile` on what a real product serves, on both set-ups: a true book differs in
nothing, and each error that is planted in it is reported, with its cause, and nothing else.
"""

import csv
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest

from meterline.runtime.commands.reconciliation import DifferenceKind
from tests.journey.conftest import SETUPS
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, completed
from tests.journey.receiver import Delivered, Mailbox, Receiver
from tests.journey.setups import Servers, SetUp, distributed, embedded, telling

V3 = "/api/v3/metering"
METER = {
    "key": "tokens",
    "name": "Tokens",
    "aggregation": "sum",
    "event_type": "prompt",
    "value_property": "$.tokens",
}
WINDOW = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
SUBJECTS = 120  # more than a page
OTHER_SECRET = "whsec_" + "b3RoZXI" * 5 + "b3RoZXI="
WITHIN_S = 120.0
SETTINGS = {
    "METERLINE_PRODUCE_DEADLINE_MS": "1000",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "1000",
    "METERLINE_FLUSH_INTERVAL_MS": "200",
    "METERLINE_RETRY_DELAYS_S": "[0.0, 0.1]",
    "METERLINE_RETRY_PATIENCE_S": "0",  # what two attempts did not bring has failed
}
REVISED = "s007"
Row = dict[str, Any]


def booked(one: Delivered) -> Row:
    """What a receiver books of a delivery."""
    body = json.loads(one.body, parse_float=str, parse_int=str)
    (entry,) = body["usage"]
    return {
        "delivery_id": one.id,
        "report": body["report"]["slug"],
        **{name: body["query"][name] for name in ("from", "to", "subject")},
        "revision": int(body["run"]["revision"]),
        "value": entry["valueText"],
        "sha256": sha256(one.body).hexdigest(),
    }


@dataclass(slots=True)
class Delivering:
    """A product that delivered a window of a report, revised one subject of it, sent a test, and
    has other reports.
    """

    setup: SetUp
    receiver: Receiver
    boxes: dict[str, Mailbox] = field(default_factory=dict)
    test_id: str = ""

    def go(self) -> None:
        """The way up to what is compared."""
        self.setup.control.made(f"{V3}/meters", METER)
        self._send([(f"s{number:03d}", number + 1) for number in range(SUBJECTS)], 0)
        for slug in ("mine", "other", "refused"):
            self._report(slug)
        self.boxes["refused"].secret = OTHER_SECRET  # so it answers 400
        tested = self._asked("mine/test").json
        assert tested["delivered"], tested
        self.test_id = tested["delivery_id"]
        for slug in self.boxes:
            self._run(slug)
        self._arrived("mine", SUBJECTS + 1)
        self._send([(REVISED, 1_000)], 1_000)
        until("the late event counts", WITHIN_S, lambda: self.setup.status["caught_up"])
        self._run("mine", revise=True)
        self._arrived("mine", SUBJECTS + 2)
        until("a run has failed", WITHIN_S, lambda: self._states("refused") == {"failed"})

    def _send(self, usage: list[tuple[str, int]], first: int) -> None:
        events = [
            {
                "specversion": "1.0",
                "id": str(first + place),
                "source": "reconcile",
                "type": "prompt",
                "subject": subject,
                "time": "2026-01-31T09:00:00Z",
                "data": {"tokens": f"{tokens}.25"},
            }
            for place, (subject, tokens) in enumerate(usage)
        ]
        media = {"Content-Type": "application/cloudevents-batch+json"}
        answer = self.setup.ingest.ask("POST", f"{V3}/events", json.dumps(events).encode(), media)
        assert answer.status == 202, answer.body

    def _report(self, slug: str) -> None:
        box = self.boxes[slug] = self.receiver.mailbox(f"reconcile-{self.setup.name}-{slug}")
        report = {
            "slug": slug,
            "meter_id_or_key": "tokens",
            "type": "webhook",
            "schedule": {"interval": "1d"},
            "filter": {} if slug == "mine" else {"subject": {"$in": [REVISED, "s008"]}},
            "endpoint": {"url": box.url},
        }
        box.secret = self.setup.control.made(f"{V3}/reports", report)["signing_secret"]

    def _asked(self, path: str, body: object = None) -> Any:
        return self.setup.control.ask("POST", f"{V3}/reports/{path}", body)

    def _run(self, slug: str, **more: bool) -> None:
        self.setup.control.made(f"{V3}/reports/{slug}/runs", {**WINDOW, **more})

    def _arrived(self, slug: str, count: int) -> None:
        until("all arrive", WITHIN_S, lambda: len(self.boxes[slug].delivered) >= count)

    def _states(self, slug: str) -> set[str]:
        listed = self.setup.control.get(f"{V3}/reports/{slug}/runs").json["data"]
        return {run["state"] for run in listed if run["from"] == WINDOW["from"]}

    def received(self, slug: str = "mine") -> dict[str, list[Row]]:
        """By subject, what a true receiver books, in the order of revisions."""
        found: dict[str, dict[str, Row]] = {}
        for one in self.boxes[slug].delivered:
            if json.loads(one.body)["run"]["trigger"] != "test":
                row = booked(one)
                found.setdefault(row["subject"], {})[row["delivery_id"]] = row
        return {
            subject: sorted(rows.values(), key=lambda row: row["revision"])
            for subject, rows in found.items()
        }

    def book(self) -> list[Row]:
        """A true book: what stands."""
        return [rows[-1] for rows in self.received().values()]

    def reconciled(
        self, text: str, *more: str, slug: str = "mine", secret: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """`meterline reconcile` over a book."""
        book = self.setup.folder / "booked"
        book.write_text(text, "utf-8")
        place = ("--server", self.setup.control.url, "--report", slug)
        secret = self.boxes[slug].secret if secret is None else secret
        command = [str(PROGRAM), "reconcile", str(book), *place, *more]
        given = {"METERLINE_RECEIVE_SECRET": secret}
        return completed(command, self.setup.folder, given, WITHIN_S)


@pytest.fixture(scope="module", params=SETUPS)
def product(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[Delivering]:
    folder = tmp_path_factory.mktemp("reconcile")
    if request.param == "embedded":
        setup = embedded(folder, SETTINGS)
    else:
        servers: Servers = request.getfixturevalue("servers")
        setup = distributed(folder, servers, SETTINGS)
    made = Delivering(setup, receiver)
    try:
        with telling(setup):
            setup.start()
            made.go()
            yield made
    finally:
        setup.kill()


def lines(rows: list[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def as_csv(rows: list[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_a_true_book_differs_in_nothing(product: Delivering) -> None:
    book = product.book()
    assert len(book) == SUBJECTS
    everything = [row for rows in product.received().values() for row in rows]
    assert len(everything) == SUBJECTS + 1
    window = ("--from", WINDOW["from"], "--to", WINDOW["to"])
    for text, more in ((lines(book), ()), (as_csv(book), window)):
        done = product.reconciled(text, *more)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert f"{SUBJECTS + 1} deliveries, {SUBJECTS} booked as sent" in done.stderr
        assert "1 superseded deliveries are not booked: this is correct." in done.stderr
    # a log of all that came is a true book too
    done = product.reconciled(lines(everything))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    ids = lines([{"delivery_id": row["delivery_id"]} for row in book])
    assert product.reconciled(ids).returncode == 0


@dataclass(frozen=True, slots=True)
class Planted:
    """An error in a book, and what is to be said of it: kinds, and words of the cause."""

    change: Callable[[Delivering, list[Row]], None]
    kinds: tuple[DifferenceKind, ...]
    words: str


def at(subject: str, rows: list[Row]) -> Row:
    (found,) = (row for row in rows if row["subject"] == subject)
    return found


def changed(**members: object) -> Callable[[Delivering, list[Row]], None]:
    """A book whose line of one subject says otherwise."""

    def change(_product: Delivering, rows: list[Row]) -> None:
        at("s042", rows).update(members)

    return change


def lost(_product: Delivering, rows: list[Row]) -> None:
    rows.remove(at("s042", rows))


def twice(_product: Delivering, rows: list[Row]) -> None:
    rows.append(dict(at("s042", rows)))


def invented(_product: Delivering, rows: list[Row]) -> None:
    rows.append({**at("s042", rows), "delivery_id": "dlv_invented", "subject": "nobody"})


def a_test(product: Delivering, rows: list[Row]) -> None:
    rows.append({"delivery_id": product.test_id, "value": "0"})


def of_another_report(product: Delivering, rows: list[Row]) -> None:
    one = product.received("other")[REVISED][0]
    rows.append({"delivery_id": one["delivery_id"], "value": one["value"]})


def earlier(product: Delivering, rows: list[Row]) -> None:
    """The one that was replaced, instead of the one that replaces it."""
    rows.remove(at(REVISED, rows))
    rows.append(product.received()[REVISED][0])


def both(product: Delivering, rows: list[Row]) -> None:
    """Both, by a receiver that does not keep revisions."""
    rows.append(product.received()[REVISED][0])
    for row in rows:
        del row["revision"]


def body_altered(_product: Delivering, rows: list[Row]) -> None:
    row = at("s042", rows)
    row["sha256"] = sha256(b"another body").hexdigest()


K = DifferenceKind
PLANTED = {
    "lost": Planted(lost, (K.MISSING,), "delivered: the receiver answered 2xx, but did not book"),
    "booked twice": Planted(twice, (K.TWICE,), "booked 2 times"),
    "an invented id": Planted(invented, (K.EXTRA,), "Meterline has no such delivery"),
    "a test delivery": Planted(a_test, (K.EXTRA,), "Meterline has no such delivery"),
    "another report's": Planted(
        of_another_report, (K.EXTRA,), "it belongs to report other, window 2026"
    ),
    "another value": Planted(changed(value="43.24"), (K.DIFFERENT,), "booked 43.24, sent 43.25"),
    "another subject": Planted(changed(subject="s001x"), (K.DIFFERENT,), "for another subject"),
    "another window": Planted(
        changed(to="2026-01-31T12:00:00Z"), (K.DIFFERENT,), "for another window"
    ),
    "another report": Planted(changed(report="other"), (K.DIFFERENT,), "for another report"),
    "another body": Planted(body_altered, (K.DIFFERENT,), "the digest is of another body"),
    "another revision": Planted(changed(revision=9), (K.DIFFERENT,), "as another revision"),
    "what was replaced": Planted(earlier, (K.MISSING, K.SUPERSEDED), "book that one instead"),
    "both revisions": Planted(both, (K.SUPERSEDED,), "is booked too: remove this booking"),
}


def test_every_kind_of_difference_is_planted() -> None:
    assert {kind for one in PLANTED.values() for kind in one.kinds} == set(DifferenceKind)


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_error_is_reported_and_nothing_else(product: Delivering, name: str) -> None:
    planted, book = PLANTED[name], product.book()
    planted.change(product, book)
    assert book != product.book()
    done = product.reconciled(lines(book), "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    kinds = sorted(one["kind"] for one in found["differences"])
    assert kinds == sorted(kind.value for kind in planted.kinds), found
    counts = {kind.value: found["summary"][kind.value] for kind in DifferenceKind}
    assert counts == {kind.value: kinds.count(kind.value) for kind in DifferenceKind}
    told = [
        f"booked {one.get('booked')}, sent {one.get('sent')}: {one['cause']}"
        for one in found["differences"]
    ]
    assert any(planted.words in line for line in told), told


def test_what_did_not_arrive_says_why(product: Delivering) -> None:
    book = lines([{"delivery_id": "x", "report": "elsewhere"}])
    refused = product.reconciled(book, slug="refused", secret="")
    assert refused.returncode == 1, refused.stderr
    told = refused.stdout.splitlines()
    assert len(told) == 2, told
    assert all("failed after " in line and "; replay it" in line for line in told), told
    assert "1 bookings are for other reports" in refused.stderr


def test_what_cannot_be_compared_is_no_difference(product: Delivering) -> None:
    book = lines(product.book())
    wrong = product.reconciled(book, secret=OTHER_SECRET)
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert "its signature is invalid" in wrong.stderr
    absent = product.reconciled(book, slug="absent", secret="")
    assert (absent.returncode, absent.stdout) == (3, "")
    assert "answered 404" in absent.stderr
    unreadable = product.reconciled("value,subject\n1,2\n")
    assert (unreadable.returncode, unreadable.stdout) == (2, "")
