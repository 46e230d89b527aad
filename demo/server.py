"""The few requests that the demo makes, and words for a person when one of them fails."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
HTTP_CONFLICT: Final = 409


class Failed(Exception):
    """The demo cannot go on; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of Meterline."""

    url: str

    def get(self, path: str) -> Any:
        """The document there. Raises `Failed`."""
        return self._ask("GET", path)[1]

    def post(self, path: str, body: object) -> Any:
        """What a POST answers. Raises `Failed`."""
        status, document = self._ask("POST", path, body)
        if status == HTTP_CONFLICT:
            raise Failed(f"POST {path}: {document.get('detail')}")
        return document

    def make(self, path: str, body: object) -> bool:
        """POST something that may be there already: whether it was made now. Raises `Failed`."""
        return self._ask("POST", path, body)[0] != HTTP_CONFLICT

    def delete(self, path: str) -> None:
        """DELETE. Raises `Failed`."""
        self._ask("DELETE", path)

    def is_ready(self) -> bool:
        """Whether all of its parts answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=TIMEOUT_S):  # noqa: S310
                return True
        except (OSError, ValueError):
            return False

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        where = f"{method} {self.url}{path}"
        request = urllib.request.Request(  # noqa: S310 - an address that the user gave
            self.url + path, data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
                said = response.read()
                return response.status, json.loads(said) if said else None
        except urllib.error.HTTPError as error:
            with error:
                said = error.read()
            if error.code == HTTP_CONFLICT:
                return error.code, json.loads(said)
            words = said[:500].decode(errors="replace")
            raise Failed(f"{where} was answered with {error.code}: {words}") from error
        except (OSError, ValueError) as error:
            raise Failed(f"{where}: {error}. Is a Meterline server there?") from error


def now_s() -> float:
    """Seconds, for distances of time only."""
    return time.monotonic()


def pause() -> None:
    """Between two looks at something."""
    time.sleep(POLL_S)
