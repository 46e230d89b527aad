"""A receiver as bad as they come: it fails at random, drops connections after it read, and sleeps.

What it does to a POST is decided by a seed, the delivery's id and how often that came, so that it
can be had again. What it answered 2xx for is booked.
"""

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from svix.webhooks import Webhook

from tests.beside import beside

SLEEP_S: Final = 1.5  # longer than the sender of the test waits
HURTS_MAX: Final = 6  # of one delivery: in the end it is taken


@dataclass(slots=True)
class BadReceiver:
    """Everything that came, by id, and what became of it."""

    seed: int
    url: str = ""
    secrets: dict[str, str] = field(default_factory=dict)  # by path
    came: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    booked: set[str] = field(default_factory=set)
    hurts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unverified: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> str:
        """What is done to a POST: ok, status, drop or sleep."""
        try:
            Webhook(self.secrets[path]).verify(body, headers)
        except Exception as error:  # noqa: BLE001 - kept for the test to see
            self.unverified.append(repr(error))
            return "status"
        name = headers["svix-id"]
        with self.lock:
            times = len(self.came[name])
            self.came[name].append(body)
        draw = hashlib.sha256(f"{self.seed}.{name}.{times}".encode()).digest()[0]
        hurt = "" if draw >= 128 or times >= HURTS_MAX else ("status", "drop", "sleep")[draw % 3]
        with self.lock:
            if hurt:
                self.hurts[hurt] += 1
            else:
                self.booked.add(name)
        return hurt or "ok"


@contextmanager
def receiving_badly(seed: int) -> Iterator[BadReceiver]:
    """Receive on a loopback port until the block ends."""
    made = BadReceiver(seed)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            named = {name.lower(): value for name, value in self.headers.items()}
            done = made.take(self.path, named, body)
            if done == "drop":
                return  # without an answer: the connection closes
            if done == "sleep":
                time.sleep(SLEEP_S)
            self.send_response(503 if done == "status" else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A sender that was killed, or did not wait: as it is to be."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        with beside("bad receiver", server.serve_forever, server.shutdown):
            yield made
