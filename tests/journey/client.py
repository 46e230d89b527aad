"""HTTP as a user's program speaks it: one request, one answer, nothing interpreted."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Server:
    """A server at a base URL; every request shows the key, if there is one."""

    url: str
    key: str = field(default="", repr=False)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; bytes go as they are, other bodies as JSON. Raises `OSError`."""
        named = dict(headers or {})
        if self.key:
            named.setdefault("Authorization", f"Bearer {self.key}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            named.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, body, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return _answer(response.status, response.headers.items(), response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers.items(), error.read())

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET, which must succeed."""
        answer = self.ask("GET", path, headers=headers)
        assert answer.status == 200, f"GET {path}: {answer.status} {answer.body!r}"
        return answer

    def made(self, path: str, body: object) -> Any:
        """POST that makes something: 201 and its document."""
        answer = self.ask("POST", path, body)
        assert answer.status == 201, f"POST {path}: {answer.status} {answer.body!r}"
        return answer.json


def _answer(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
    return Answer(status, {name.lower(): value for name, value in headers}, body)
