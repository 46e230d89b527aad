"""Changes: who changed which meter, report, subject or key, settled a refusal or had deliveries
sent again, and when.

A store records a change in the transaction that makes it, so that neither is without the other. A
call that finds nothing to do records none. A change tells what happened, never a secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec

from meterline.limits import CHANGE_VALUE_BYTES_MAX

COMMAND: Final = "command"
"""The author of what is done by a command on the installation's own machine."""

SETTINGS: Final = "settings"
"""The author of what the settings file defines."""

DISPATCHER: Final = "dispatcher"
"""The author of what follows from a receiver's answer."""

AGGREGATOR: Final = "aggregator"
"""The author of what follows from how far counting is."""


class Kind(StrEnum):
    """What was changed."""

    METER = "meter"
    REPORT = "report"
    SUBJECT = "subject"
    API_KEY = "api_key"
    REFUSAL = "refusal"
    REPLAY = "replay"  # of many deliveries


class Action(StrEnum):
    """What was done to it."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ROTATE = "rotate"  # a secret
    REVOKE = "revoke"
    PAUSE = "pause"
    PARK = "park"  # of a report: its receiver said that nobody is there any more
    RESUME = "resume"
    RUN = "run"  # by hand
    PROPOSE = "propose"  # a revision of a meter, to be compared
    SWITCH = "switch"  # to it
    DISCARD = "discard"  # it
    REPLAY = "replay"  # one delivery
    CANCEL = "cancel"  # a replay of many
    TEST = "test"  # of a report: a test delivery was sent
    ERASE = "erase"  # a subject: its name and payloads
    REDRIVE = "redrive"  # of what was refused: an event was sent anew
    DISMISS = "dismiss"
    SHOW = "show"  # a signing secret


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `subject_id` and `name` are those of what was changed, as they are after it.

    `author` is a `Principal.author`. `detail` says in a few words what changed, empty where the
    action says it all; `members`, a text of `members_text`, what differs before and after. `id`, a
    ULID, is given when the change is recorded.
    """

    namespace: str
    at_ms: int
    author: str
    action: Action
    kind: Kind
    subject_id: str
    name: str
    detail: str = ""
    members: str = ""
    id: str = ""


class ChangedMember(msgspec.Struct, frozen=True):
    """A member of what was changed, as JSON shows it; None where it was or is absent."""

    member: str
    before: object
    after: object


_encode: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder(list[ChangedMember]).decode


def members_text(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """The members that differ, to be kept with a change; "" where none does.

    A value of over `CHANGE_VALUE_BYTES_MAX` as JSON is told by its size and its SHA-256, so that
    the record stays small and the value can still be recognised. Members must hold no secret.
    """
    found = [
        ChangedMember(name, _shown(before.get(name)), _shown(after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    return _encode(found).decode() if found else ""


def members_of(text: str) -> list[ChangedMember]:
    """What `members_text` made a text of."""
    return _decode(text) if text else []


def _shown(value: object) -> object:
    encoded = _encode(value)
    if len(encoded) <= CHANGE_VALUE_BYTES_MAX:
        return value
    return f"({len(encoded)} bytes, SHA-256 {sha256(encoded).hexdigest()})"
