"""A running product that asks for keys, and callers that have some."""

import asyncio
import http.client
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ulid import ULID

from meterline.access import COMMAND, SECRET_BYTES, ApiKey, Scope, hash_of, token_of
from meterline.backends.clock import SystemClock
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import open_database
from tests.journey.client import Answer
from tests.journey.deadline import until
from tests.journey.processes import role_process
from tests.openapi import check
from tests.services.local import LocalService, free_port

KEY_WITHIN_S = 60.0
ANSWER_WITHIN_S = 60.0
_OTHERS = IPv4Address("127.0.1.1")  # and those after it: every address of this network is ours


@dataclass(slots=True)
class Caller:
    """Asks over one connection, with a key or without.

    `address` is its own: requests without a good key are counted by the address they come from,
    and those of one caller may not use up what another has.
    """

    url: str
    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    _connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, media_type: str = "") -> Answer:
        """The answer to a request, which is as documented; bytes go as they are, any other body as
        JSON.
        """
        named = dict(self.headers)
        if self.key is not None:
            named["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            named["Content-Type"] = media_type or "application/json"
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            answer = self._sent(method, path, raw, named)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()  # it was idle for too long, or the last answer ended it
            answer = self._sent(method, path, raw, named)
        check(method, path, answer.status, answer.headers, answer.body)
        return answer

    def _sent(self, method: str, path: str, body: bytes | None, named: Mapping[str, str]) -> Answer:
        if self._connection is None:
            host = urlsplit(self.url)
            assert host.hostname is not None
            self._connection = http.client.HTTPConnection(
                host.hostname,
                host.port,
                timeout=ANSWER_WITHIN_S,
                source_address=(self.address, 0),
            )
        self._connection.request(method, path, body, dict(named))
        response = self._connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def get(self, path: str) -> Any:
        """The document at a path, which must be there."""
        return self.wanted("GET", path, 200)

    def wanted(self, method: str, path: str, status: int, body: object = None) -> Any:
        """The document of an answer that must have this status."""
        answer = self.ask(method, path, body)
        assert answer.status == status, f"{method} {path}: {answer.status} {answer.body!r}"
        return answer.json if answer.body else None

    def close(self) -> None:
        """Safe to call twice."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


@dataclass(frozen=True, slots=True)
class Installation:
    """A product with keys, and the folder that it is in."""

    process: LocalService
    folder: Path
    made: list[Caller] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.process.url

    def caller(self, key: str | None = None) -> Caller:
        """Somebody with this key, at an address of this machine that nobody else has."""
        address = str(_OTHERS + len(self.made))
        self.made.append(Caller(self.url, key, address=address))
        return self.made[-1]

    def callers(self, wanted: Sequence[tuple[str, Iterable[Scope]]]) -> list[Caller]:
        """For each namespace and scopes somebody with such a key, known to the product by now."""
        keys = asyncio.run(self._make_keys(wanted))
        return [self._taken(key) for key in keys]

    async def _make_keys(self, wanted: Sequence[tuple[str, Iterable[Scope]]]) -> list[str]:
        """As `meterline keys create` does, but for the half second that a command takes."""
        database = open_database(f"sqlite:///{self.folder / 'data' / 'control.db'}")
        store, made = SqlAccessStore(database), []
        try:
            for namespace, scopes in wanted:
                now_ms = SystemClock().now_ms()
                token = token_of(
                    str(ULID.from_timestamp(now_ms)), secrets.token_bytes(SECRET_BYTES)
                )
                await store.create_key(
                    ApiKey(
                        id=token.key_id,
                        namespace=namespace,
                        name="a caller of the tests",
                        scopes=frozenset(scopes),
                        created_at_ms=now_ms,
                        created_by=COMMAND,
                        secret_hash=hash_of(token.secret),
                    )
                )
                made.append(token.text)
        finally:
            await database.close()
        return made

    def _taken(self, key: str) -> Caller:
        """A caller whose key is known to the running product by now."""
        caller = self.caller(key)

        def known() -> bool:
            return caller.ask("GET", "/api/v3/metering/meters/none").status != 401

        until("the key is known", KEY_WITHIN_S, known)
        return caller


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Everything in one process, asking for keys."""
    settings = {
        "METERLINE_DATA_DIR": str(folder / "data"),
        "METERLINE_ACCESS_MODE": "keys",
        "METERLINE_WEBHOOK_NETWORKS_ALLOWED": "127.0.0.0/8",
        "METERLINE_PRODUCE_DEADLINE_MS": "2000",  # runs wait so long for what was just sent
    }
    process = role_process("up", ["up"], folder / "up", free_port(), settings)
    process.start()
    installation = Installation(process, folder)
    try:
        yield installation
    except BaseException as error:
        error.add_note(process.log_path.read_text(errors="replace")[-3_000:])
        raise
    finally:
        for caller in installation.made:
            caller.close()
        process.kill()
