"""What a hostile client tries against the running product: requests with two ends, bodies that hold
memory, headers of every form, keys that give themselves more.
"""

import contextlib
import re
import socket
from collections.abc import Iterator

import pytest

from meterline.access import EVERY_SCOPE, Scope
from meterline.limits import BODIES_BYTES_OF_ONE_MAX, BODY_BYTES_MAX
from tests.conformance.installation import Caller, Installation

METERS = "/api/v3/metering/meters"
EVENTS = "/api/v3/metering/events"
KEYS = "/api/v3/metering/api-keys"
QUERY = f"{METERS}/none/query"
HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SILENCE_S = 5.0  # then nothing more is to come; what is refused is closed at once
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


def with_scopes(installation: Installation, *scopes: Scope) -> Caller:
    """Somebody in a namespace of these tests."""
    (caller,) = installation.callers([("hostile", scopes)])
    return caller


def statuses(installation: Installation, raw: bytes) -> list[int]:
    """The statuses of all answers that come before the connection is closed or falls silent."""
    host, port = installation.url.removeprefix("http://").split(":")
    told = b""
    with socket.create_connection((host, int(port)), timeout=SILENCE_S) as connection:
        connection.sendall(raw)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while part := connection.recv(65_536):
                told += part
    return [int(status) for status in STATUS.findall(told)]


def head(key: str, *lines: str) -> bytes:
    """The head of a query, with further lines."""
    fixed = (f"POST {QUERY} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}")
    return "\r\n".join((*fixed, "Content-Type: application/json", *lines, "", "")).encode()


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (("Content-Length: 6", "Transfer-Encoding: chunked"), b"0\r\n\r\n"),
        (("Transfer-Encoding: chunked", "Content-Length: 6"), b"0\r\n\r\n"),
        (("Transfer-Encoding: xchunked", "Content-Length: 2"), b"{}"),
        (("Transfer-Encoding: chunked, identity",), b"0\r\n\r\n"),
        (("Content-Length: 2", "Content-Length: 40"), b"{}"),
        (("Content-Length: +2",), b"{}"),
        (("Content-Length: 0x2",), b"{}"),
        (("Content-Length : 2",), b"{}"),
        (("Content-Length: 2, 40",), b"{}"),
        (("Transfer-Encoding: chunked",), b"-1\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"2\n{}\n0\n\n"),
        (("X-Fold: a", " Content-Length: 2"), b"{}"),
    ],
)
def test_a_request_with_two_ends_is_refused_and_nothing_behind_it_is_answered(
    installation: Installation, lines: tuple[str, ...], body: bytes
) -> None:
    key = with_scopes(installation, Scope.USAGE_READ).key
    assert key is not None
    assert statuses(installation, head(key, *lines) + body + HIDDEN) == [400]


def test_what_is_well_formed_is_answered_with_what_follows_it(installation: Installation) -> None:
    """So that the test above cannot pass because nothing is ever answered."""
    key = with_scopes(installation, Scope.USAGE_READ).key
    assert key is not None
    well = head(key, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"
    assert statuses(installation, well + HIDDEN) == [404, 200]


def authorizations(key: str) -> Iterator[str]:
    yield from ("Bearer", "Bearer ", f"Basic {key}", f"Bearer {key} x", f"Bearer {key[:-1]}")
    yield from (f"Bearer {key.upper()}", f"Bearer {key}{key}", "Bearer " + "a" * 7_000)
    yield from (f"Bearer\x0b{key}", f"Token {key}", key, f'Bearer "{key}"', "Bearer mtl__")


def test_only_the_key_itself_lets_in(installation: Installation) -> None:
    caller = with_scopes(installation, Scope.METERS_READ)
    assert caller.key is not None
    assert caller.ask("GET", METERS).status == 200
    tried = 0
    for shown in authorizations(caller.key):
        stranger = Caller(caller.url, headers={"Authorization": shown})
        assert stranger.ask("GET", METERS).status in (400, 401), shown
        stranger.close()
        tried += 1
    assert tried == 13
    two = f"GET {METERS} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    two += f"Authorization: Bearer bad\r\nAuthorization: Bearer {caller.key}\r\n\r\n"
    assert statuses(installation, two.encode()) in ([400], [401])


def test_a_key_gives_itself_no_more_than_it_has(installation: Installation) -> None:
    strong = with_scopes(installation, *EVERY_SCOPE)
    weak = with_scopes(installation, Scope.KEYS_WRITE, Scope.KEYS_READ)
    assert strong.key is not None
    assert weak.key is not None
    beyond = [scope for scope in Scope if scope not in (Scope.KEYS_WRITE, Scope.KEYS_READ)]
    for scope in beyond:
        body = {"name": "more", "scopes": [scope.value]}
        assert weak.ask("POST", KEYS, body).status == 400, scope
        own = f"{KEYS}/{weak.key.split('_')[1]}"
        assert weak.ask("PUT", own, {"scopes": [scope.value]}).status == 400, scope
    theirs = f"{KEYS}/{strong.key.split('_')[1]}"
    assert weak.ask("POST", f"{theirs}/rotate", {}).status == 403
    assert weak.ask("PUT", theirs, {"name": "mine"}).status == 403
    assert weak.ask("DELETE", theirs).status == 403
    for member in ("namespace", "secret_hash", "created_by", "id"):
        body = {"name": "more", "scopes": ["keys:read"], member: "other"}
        assert weak.ask("POST", KEYS, body).status == 400, member
    assert strong.ask("GET", METERS).status == 200


def test_bodies_of_one_key_leave_room_for_those_of_another(installation: Installation) -> None:
    """Bodies that never end, as many as one key may hold and more: its next one is put off, that of
    another key is taken.
    """
    greedy, other = (with_scopes(installation, Scope.EVENTS_WRITE) for _ in range(2))
    assert greedy.key is not None
    host, port = greedy.url.removeprefix("http://").split(":")
    start = (
        f"POST {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {greedy.key}\r\n"
        "Content-Type: application/cloudevents-batch+json\r\n"
        f"Content-Length: {BODY_BYTES_MAX}\r\n\r\n["
    ).encode()
    body = b" " * (BODY_BYTES_MAX - 2)
    batch, large = "application/cloudevents-batch+json", b"[" + body[:-1] + b"]"
    with contextlib.ExitStack() as stack:
        for _ in range(BODIES_BYTES_OF_ONE_MAX // len(body) + 2):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            with contextlib.suppress(ConnectionError):
                connection.sendall(start + body)
        refused = greedy.ask("POST", EVENTS, large, batch)
        assert (refused.status, refused.headers.get("retry-after")) == (503, "1")
        assert other.ask("POST", EVENTS, large, batch).status == 202
