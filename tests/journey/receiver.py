"""A receiver of deliveries as the contract wants one (4.5), with the svix library alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

from svix.webhooks import Webhook, WebhookVerificationError

from tests.beside import beside

AnyMailbox = TypeVar("AnyMailbox", bound="Mailbox")


@dataclass(frozen=True, slots=True)
class Delivered:
    """One POST whose signature was verified."""

    id: str
    content_type: str
    body: bytes
    traceparent: str = ""


@dataclass(slots=True)
class Mailbox:
    """What came for one path: `secret` must have signed it."""

    url: str
    secret: str = ""
    delivered: list[Delivered] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def verify(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise `WebhookVerificationError` unless the secret signed it, and lately."""
        Webhook(self.secret).verify(body, dict(headers))


@dataclass(slots=True)
class Receiver:
    """Mailboxes by path, at one address."""

    url: str
    boxes: dict[str, Mailbox] = field(default_factory=dict)

    def mailbox(self, name: str) -> Mailbox:
        """A new mailbox; give it the secret before anything is sent."""
        return self.with_box(name, Mailbox(f"{self.url}/{name}"))

    def with_box(self, name: str, box: AnyMailbox) -> AnyMailbox:
        """The mailbox, which takes from now on what comes for the path of its name."""
        self.boxes[f"/{name}"] = box
        return box


@contextmanager
def receiving(host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Receive on a port of this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            box = receiver.boxes[self.path]
            try:
                box.verify(body, dict(self.headers))
            except WebhookVerificationError as error:
                box.refused.append(f"{error}: {dict(self.headers)}")
                self._answer(400)
                return
            content_type = self.headers["Content-Type"]
            trace = self.headers.get("traceparent", "")
            box.delivered.append(Delivered(self.headers["svix-id"], content_type, body, trace))
            self._answer(200)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        receiver = Receiver(f"http://{host}:{server.server_port}")
        with beside("receiver", server.serve_forever, server.shutdown):
            yield receiver
