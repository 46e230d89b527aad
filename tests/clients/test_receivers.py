"""The example receivers, with both libraries: what they book, what they refuse, and all that a
running Meterline sends them.
"""

import json
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clients.openapi.tools import go_command, run
from control.openapi.report_message import EXAMPLE
from dispatcher.sending.signing import signed_headers
from meterline.backends.clock import SystemClock
from meterline.report import TEST_TRIGGER
from tests.clients.receivers import (
    FOLDER,
    LANGUAGES,
    LIBRARIES,
    Commands,
    Running,
    installed,
    receiver,
)
from tests.journey.client import Server
from tests.journey.deadline import until
from tests.journey.processes import PROGRAM, completed
from tests.journey.setups import SetUp, embedded
from tests.services.local import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + "b3RoZXI" * 5 + "b3RoZXI="
MINUTE_MS = 60_000
RUN_WITHIN_S = 180.0
KINDS = [(language, library) for language in LANGUAGES for library in LIBRARIES]
V3 = "/api/v3/metering"
# Figures of a window are complete within a second or two.
SOON = {
    "METERLINE_PRODUCE_DEADLINE_MS": "500",
    "METERLINE_CLOCK_SKEW_MS": "0",
    "METERLINE_GRACE_MS": "500",
    "METERLINE_FLUSH_INTERVAL_MS": "200",
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return installed(tmp_path_factory.mktemp("receivers"))


@pytest.fixture(params=KINDS, ids=["-".join(kind) for kind in KINDS])
def at_work(
    request: pytest.FixtureRequest, commands: Commands, tmp_path: Path
) -> Iterator[Running]:
    language, library = request.param
    with receiver(commands[language], library, SECRET, tmp_path / "booked.ndjson") as running:
        yield running


def body_of(revision: int = 1, **members: Any) -> bytes:
    changed = {**EXAMPLE, "run": {**EXAMPLE["run"], "revision": revision}, **members}
    return json.dumps(changed, ensure_ascii=False).encode()


def signed(
    body: bytes, name: str = "dlv_one", secret: str = SECRET, late_ms: int = 0
) -> dict[str, str]:
    return signed_headers(name, [secret], body, SystemClock().now_ms() - late_ms)


def test_each_id_is_booked_once_and_the_highest_revision_stands(at_work: Running) -> None:
    second, first = body_of(2), body_of(1)
    assert at_work.post(second, signed(second, "dlv_two")) == 204
    for _ in range(2):
        assert at_work.post(first, signed(first)) == 204
    assert [row["delivery_id"] for row in at_work.rows] == ["dlv_two", "dlv_one"]
    assert [row["revision"] for row in at_work.rows] == [2, 1]
    said = at_work.book.with_suffix(".log").read_text("utf-8")
    assert said.count("(a later revision stands)") == 1
    assert "dlv_one: a copy" in said


def test_values_are_summed_exactly(at_work: Running) -> None:
    entry = EXAMPLE["usage"][0]
    texts = ["12345678901234567890.000000000000000001", "0.1", "-0.2"]
    body = body_of(usage=[{**entry, "valueText": text} for text in texts])
    assert at_work.post(body, signed(body)) == 204
    nothing = body_of(usage=[])
    assert at_work.post(nothing, signed(nothing, "dlv_two")) == 204
    values = [row["value"] for row in at_work.rows]
    assert values == ["12345678901234567889.900000000000000001", "0"]


@pytest.mark.parametrize("aggregation", ["MAX", "MIN", "AVG", "UNIQUE_COUNT", "LATEST"])
def test_groups_that_cannot_be_added_up_have_no_figure(at_work: Running, aggregation: str) -> None:
    entry, meter = EXAMPLE["usage"][0], {**EXAMPLE["meter"], "aggregation": aggregation}
    groups = body_of(usage=[entry, {**entry, "groupBy": {"model": "other"}}], meter=meter)
    assert at_work.post(groups, signed(groups)) == 204
    one = body_of(usage=[entry], meter=meter)
    assert at_work.post(one, signed(one, "dlv_two")) == 204
    assert [row.get("value") for row in at_work.rows] == [None, entry["valueText"]]


def test_what_was_not_signed_so_is_refused(at_work: Running) -> None:
    body = body_of(report={"slug": "é\ufffd"})
    headers = signed(body)
    changed = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :] for at in (0, 20, len(body) - 1)]
    changed += [body + b" ", b"", body.replace("\ufffd".encode(), b"\xff")]
    assert [at_work.post(one, headers) for one in changed] == [400] * len(changed)
    assert at_work.post(body, signed(body, secret=OTHER_SECRET)) == 400
    for late_ms in (6 * MINUTE_MS, -6 * MINUTE_MS):
        assert at_work.post(body, signed(body, late_ms=late_ms)) == 400
    assert at_work.post(body, {}) == 400
    assert at_work.rows == []
    assert at_work.post(body, headers) == 204


def test_signatures_without_form_are_refused_as_any_other(at_work: Running) -> None:
    body = body_of()
    headers = signed(body)
    for token in ("v1", "v1,,", "v1,not base64", "v2,eA==", "v1,a,b", " ", "", "v1,\xe9"):
        wrong = {**headers, "svix-signature": token, "webhook-signature": token}
        assert at_work.post(body, wrong) == 400, token
    for moment in ("", "soon", "9" * 40, "-1", "1e9"):
        wrong = {**headers, "svix-timestamp": moment, "webhook-timestamp": moment}
        assert at_work.post(body, wrong) == 400, moment
    mixed = {name: value for name, value in headers.items() if name != "svix-id"}
    mixed.pop("webhook-timestamp")
    assert at_work.post(body, mixed) == 400
    assert at_work.rows == []


def test_other_types_and_shapes_are_refused_and_a_test_is_not_booked(at_work: Running) -> None:
    no_run = json.dumps({n: it for n, it in EXAMPLE.items() if n != "run"}).encode()
    others = [body_of(type="report.other"), b"[]", b"null", b"{}", b"not JSON", no_run]
    for body in others:
        assert at_work.post(body, signed(body)) == 400, body
    test = body_of(usage=[], run={**EXAMPLE["run"], "trigger": TEST_TRIGGER, "sequence": 0})
    assert at_work.post(test, signed(test, "test_one")) == 204
    assert at_work.rows == []


def test_other_methods_are_refused(at_work: Running) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = at_work.server.ask(method, "/")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_book_is_read_again_and_a_torn_line_is_dropped(
    language: str, commands: Commands, tmp_path: Path
) -> None:
    book, body = tmp_path / "booked.ndjson", body_of(2)
    with receiver(commands[language], "svix", SECRET, book) as first:
        assert first.post(body, signed(body)) == 204
    whole = book.read_bytes()
    book.write_bytes(whole + whole[:40])
    with receiver(commands[language], "svix", SECRET, book) as second:
        assert second.post(body, signed(body)) == 204
        assert book.read_bytes() == whole
        lower = body_of(1)
        assert second.post(lower, signed(lower, "dlv_lower")) == 204
        assert [row["delivery_id"] for row in second.rows] == ["dlv_one", "dlv_lower"]
    assert "(a later revision stands)" in book.with_suffix(".log").read_text("utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_written_in_part_is_not_booked_and_is_booked_once_when_sent_again(
    language: str, commands: Commands, tmp_path: Path
) -> None:
    book, body = tmp_path / "booked.ndjson", body_of()
    names = [f"dlv_{number}" for number in range(30)]  # larger than what is printed
    with receiver(commands[language], "svix", SECRET, book) as first:
        for name in names:
            assert first.post(body, signed(body, name)) == 204
        whole = book.read_bytes()
        with files_at_most(first.process_id, len(whole) + 50):
            for _ in range(2):
                assert first.post(body, signed(body, "dlv_again")) == 500
            assert book.read_bytes() == whole
        assert first.post(body, signed(body, "dlv_again")) == 204
        assert first.post(body, signed(body, "dlv_again")) == 204
    with receiver(commands[language], "svix", SECRET, book) as second:  # it opens again
        assert [row["delivery_id"] for row in second.rows] == [*names, "dlv_again"]


@contextmanager
def files_at_most(process_id: int, size: int) -> Iterator[None]:
    """A running process writes no file beyond a size, as if the disk were full."""
    before = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, before)


def test_an_empty_secret_is_no_secret(commands: Commands) -> None:
    for command, folder in commands.values():
        environment = {**os.environ, "SIGNING_SECRET": "whsec_", "PORT": "0"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 1
        assert b"SIGNING_SECRET is empty" in done.stderr


def test_the_receiver_in_python_pins_what_is_tested_here() -> None:
    pinned = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    own = dict(pinned.findall((FOLDER / "python/requirements.txt").read_text("utf-8")))
    ours = dict(pinned.findall((FOLDER.parents[1] / "requirements.lock").read_text("utf-8")))
    assert {"svix", "standardwebhooks"} <= own.keys()
    assert own == {name: ours.get(name) for name in own}


def test_the_receiver_in_go_is_formatted_and_vetted() -> None:
    gofmt = str(Path(go_command()).with_name("gofmt"))
    assert run([gofmt, "-l", "."], FOLDER / "go") == ""
    run([go_command(), "vet", "./..."], FOLDER / "go")


# --- a running Meterline ---


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A whole product that has counted some usage."""
    setup: SetUp = embedded(tmp_path_factory.mktemp("meterline") / "up", SOON)
    try:
        setup.start()
        yield _filled(setup.control)
    finally:
        setup.kill()


def _filled(api: Server) -> Server:
    meter = {"key": "tokens", "name": "Tokens", "event_type": "prompt", "aggregation": "sum"}
    api.made(f"{V3}/meters", {**meter, "value_property": "$.n", "dimensions": {"m": "$.m"}})
    events = [
        {
            "specversion": "1.0",
            "id": str(number),
            "source": "test",
            "type": "prompt",
            "subject": ("ada", "böb", "cyd")[number % 3],
            "time": "2026-01-31T12:00:00Z",
            "data": {"n": f"{number}.1", "m": str(number % 2)},
        }
        for number in range(60)
    ]
    media = {"Content-Type": "application/cloudevents-batch+json"}
    assert api.ask("POST", f"{V3}/events", events, media).status == 202
    return api


def reported(api: Server, slug: str, url: str) -> Any:
    """A report to a URL, as it was made."""
    report = {
        "slug": slug,
        "meter_id_or_key": "tokens",
        "type": "webhook",
        "schedule": {"interval": "1d", "start_at": "2026-01-01T00:00:00Z"},
        "query": {"group_by_dimensions": ["m"]},
        "endpoint": {"url": url},
    }
    return api.made(f"{V3}/reports", report)


@pytest.mark.parametrize(("language", "library"), KINDS)
def test_what_a_running_meterline_sends_is_booked(
    language: str, library: str, server: Server, commands: Commands, tmp_path: Path
) -> None:
    port = free_port()
    slug = f"{language}-{library}"
    report = reported(server, slug, f"http://127.0.0.1:{port}/")
    secret, book = report["signing_secret"], tmp_path / "booked.ndjson"
    with receiver(commands[language], library, secret, book, port) as running:
        tested = server.ask("POST", f"{V3}/reports/{slug}/test")
        assert (tested.status, tested.json["delivered"]) == (200, True), tested.body
        window = {"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
        made = server.made(f"{V3}/reports/{slug}/runs", window)
        path = f"{V3}/reports/{slug}/runs/{made['id']}"

        def ended() -> Any:
            found = server.get(path).json
            return found if "ended_at" in found else None

        run_ = until("the run has ended", RUN_WITHIN_S, ended)
        assert (run_["state"], run_["delivered"]) == ("succeeded", 3)
        rows = running.rows
    sums = {name: str(sum(range(at, 60, 3)) + 2) for at, name in enumerate(("ada", "böb", "cyd"))}
    assert {row["subject"]: row["value"].removesuffix(".0") for row in rows} == sums
    assert {row["report"] for row in rows} == {slug}
    said = book.with_suffix(".log").read_text("utf-8")
    assert said.count("a test: nothing to book") == 1
    assert reconciled(server, slug, secret, book) == (0, "")


def reconciled(server: Server, slug: str, secret: str, book: Path) -> tuple[int, str]:
    """Exit code and lines of `meterline reconcile` over a receiver's book."""
    command = [str(PROGRAM), "reconcile", str(book), "--server", server.url, "--report", slug]
    done = completed(command, book.parent, {"METERLINE_RECEIVE_SECRET": secret}, 120)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, done.stdout
