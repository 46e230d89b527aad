"""A receiver of Meterline's deliveries: verifies each, books it once, prints what it booked.

README.md beside this file says how to run it. `SIGNING_SECRET`, `PORT`, `BOOK` and `LIBRARY` are
its settings.
"""

import hashlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from decimal import Context, Decimal
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Where each library lies, and which of the two families of headers it is given: always the three
# of one family, so that the id that is booked is the id that was verified.
LIBRARIES = {"svix": ("svix.webhooks", "svix"), "standardwebhooks": ("standardwebhooks", "webhook")}
BODY_BYTES_MAX = 8 * 1024 * 1024  # Meterline's own bound
EXACT = Context(prec=100)  # Python's own context rounds at 28 digits

ADDITIVE = {"SUM", "COUNT"}  # groups of these may be added up

Verified = tuple[str, dict[str, Any]]


class NotVerified(Exception):
    """A request that must not be believed."""


def verifier(library: str, secret: str) -> Callable[[Message, bytes], Verified]:
    """A function that gives id and message of a delivery, or raises `NotVerified`."""
    module, family = LIBRARIES[library]
    webhook = importlib.import_module(module).Webhook(secret)

    def verified(headers: Message, body: bytes) -> Verified:
        names = [f"{family}-{part}" for part in ("id", "timestamp", "signature")]
        signed = {name: headers.get(name, "") for name in names}
        try:
            webhook.verify(body, signed)
            message = json.loads(body)
        except Exception as error:
            raise NotVerified(str(error)) from error
        if not isinstance(message, dict) or message.get("type") != "report.meter":
            raise NotVerified("not a message of type report.meter")
        return signed[names[0]], message

    return verified


def figure(message: dict[str, Any]) -> str | None:
    """The figure of a delivery: of several groups the sum, where groups of the meter's aggregation
    may be added up, else None.
    """
    usage = message["usage"]
    if len(usage) > 1 and message["meter"]["aggregation"] not in ADDITIVE:
        return None
    value = Decimal(0)
    for entry in usage:
        value = EXACT.add(value, Decimal(entry["valueText"]))
    return f"{value:f}"


class Book:
    """What was booked, as lines of a file: for each (report, window, subject) the highest revision
    stands.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)  # what fails must leave nothing to be written
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._standing: dict[tuple[str, ...], int] = {}
        self._file.seek(0)
        for line in self._file.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):  # torn by a crash: it was not answered
                self._file.truncate(self._file.seek(-len(line), os.SEEK_END))
                break
            self._keep(json.loads(line))

    def take(self, delivery_id: str, message: dict[str, Any], body: bytes) -> str:
        """Book a delivery durably; what to say of it."""
        if message["run"]["trigger"] == "test":
            return "a test: nothing to book"
        query, value = message["query"], figure(message)
        row = {
            "delivery_id": delivery_id,
            "report": message["report"]["slug"],
            "from": query["from"],
            "to": query["to"],
            "subject": query["subject"],
            "revision": message["run"]["revision"],
            **({} if value is None else {"value": value}),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        with self._lock:
            if delivery_id in self._ids:
                return f"{delivery_id}: a copy, booked before"
            self._append(json.dumps(row).encode() + b"\n")
            stands = self._keep(row)
        words = "" if stands else " (a later revision stands)"
        shown = value or "(groups that cannot be added up)"
        return f"{row['subject']} {shown} for {row['from']} to {row['to']}{words}"

    def _append(self, line: bytes) -> None:
        """Write a line durably, all of it or nothing: what was not answered is sent again."""
        size = self._file.seek(0, os.SEEK_END)
        try:
            while line:  # a disk that is nearly full takes a part
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)
            raise

    def _keep(self, row: dict[str, Any]) -> bool:
        self._ids.add(row["delivery_id"])
        key = (row["report"], row["from"], row["to"], row["subject"])
        stands: bool = row["revision"] > self._standing.get(key, 0)
        if stands:
            self._standing[key] = row["revision"]
        return stands


def taken(
    verified: Callable[[Message, bytes], Verified], book: Book, headers: Message, body: bytes
) -> tuple[int, str]:
    """The status to answer a delivery with, and what to say of it."""
    try:
        delivery_id, message = verified(headers, body)
        return 204, book.take(delivery_id, message, body)
    except (NotVerified, KeyError, TypeError, ArithmeticError) as error:
        return 400, f"refused: {error}"
    except OSError as error:
        return 500, f"not booked, it is sent again: {error}"


def handler(secret: str, library: str, book: Book) -> type[BaseHTTPRequestHandler]:
    """The handler of requests that are signed with a secret."""
    verified = verifier(library, secret)

    class Receiver(BaseHTTPRequestHandler):
        timeout = 15  # as long as Meterline waits

        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", ""))
            except ValueError:
                return self._answer(411)
            if not 0 <= size <= BODY_BYTES_MAX:
                return self._answer(413)
            body = self.rfile.read(size)  # as it came: parsed and written anew it is another
            status, said = taken(verified, book, self.headers, body)
            print(said, flush=True)
            return self._answer(status)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):  # every other method
                return lambda: self._answer(405)
            raise AttributeError(name)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            if status == 405:
                self.send_header("Allow", "POST")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing of requests: what is booked is printed."""

    return Receiver


def main() -> None:
    """Receive until it is interrupted."""
    secret = os.environ.get("SIGNING_SECRET", "")
    if not secret.removeprefix("whsec_"):
        sys.exit("SIGNING_SECRET is empty: with an empty key anybody can sign")
    port = int(os.environ.get("PORT", "9000"))
    book = Book(Path(os.environ.get("BOOK", "booked.ndjson")))
    made = handler(secret, os.environ.get("LIBRARY", "svix"), book)
    with ThreadingHTTPServer(("127.0.0.1", port), made) as server:
        print(f"listening on http://127.0.0.1:{port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
