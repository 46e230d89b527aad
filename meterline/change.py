"""Changes: who changed which meter, report, subject or key, settled a refusal or had deliveries
sent again, and when.

A store records a change in the transaction that makes it, so that neither is without the other. A
call that finds nothing to do records none. A change tells what happened, never a secret.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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
    REDRIVE = "redrive"  # of what was refused: an event was sent anew
    DISMISS = "dismiss"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `subject_id` and `name` are those of what was changed, as they are after it.

    `author` is a `Principal.author`. `detail` says in a few words what changed, empty where the
    action says it all. `id`, a ULID, is given when the change is recorded.
    """

    namespace: str
    at_ms: int
    author: str
    action: Action
    kind: Kind
    subject_id: str
    name: str
    detail: str = ""
    id: str = ""
