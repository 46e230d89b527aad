"""What an installation answered, and what is not so any more when it is asked again."""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from tests.journey.client import Server

STATUS_OK: Final = 200


class Asked(msgspec.Struct, frozen=True):
    """A question and its answer, without the members that change by themselves. `lasts`: the answer
    stays what it is when new events of later days come in.
    """

    method: str
    path: str
    body: Any
    without: tuple[str, ...]
    lasts: bool
    answer: Any

    @property
    def named(self) -> str:
        """For people."""
        return f"{self.method} {self.path} {'' if self.body is None else json.dumps(self.body)}"


def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    without: Collection[str] = (),
    *,
    lasts: bool = False,
) -> Asked:
    """Put a question."""
    status, document = _put(server, method, path, body)
    assert status == STATUS_OK, f"{method} {path}: {status} {document!r}"
    return Asked(method, path, body, tuple(without), lasts, stripped(document, without))


def differences(server: Server, recorded: Iterable[Asked]) -> list[str]:
    """Put the same questions again; a line for each part of an answer that is another one now, or
    not there. Members that are new are no difference: answers may grow.
    """
    found = []
    for one in recorded:
        status, document = _put(server, one.method, one.path, one.body)
        lines = [f"answered {status} {document!r}"]
        if status == STATUS_OK:
            lines = list(lost(one.answer, stripped(document, one.without)))
        found += [f"{one.named}: {line}" for line in lines]
    return found


def _put(server: Server, method: str, path: str, body: Any) -> tuple[int, Any]:
    answer = server.ask(method, path, body)
    # Numbers stay the texts that they are: a float would hide what the last digits are.
    return answer.status, json.loads(answer.body, parse_float=str)


def stripped(document: Any, without: Collection[str]) -> Any:
    """A document without members of these names, at any depth."""
    if isinstance(document, dict):
        return {name: stripped(it, without) for name, it in document.items() if name not in without}
    if isinstance(document, list):
        return [stripped(it, without) for it in document]
    return document


def lost(recorded: Any, now: Any, where: str = "") -> Iterator[str]:
    """What a document said that another one does not say."""
    place = where or "the answer"
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name, value in recorded.items():
            if name in now:
                yield from lost(value, now[name], f"{where}.{name}")
            else:
                yield f"{place} has no {name} any more"
    elif isinstance(recorded, list) and isinstance(now, list):
        if len(recorded) != len(now):
            yield f"{place} has {len(now)} entries, it had {len(recorded)}"
            return
        for at, (one, other) in enumerate(zip(recorded, now, strict=True)):
            yield from lost(one, other, f"{where}[{at}]")
    elif (type(recorded), recorded) != (type(now), now):
        yield f"{place} is {now!r}, it was {recorded!r}"
