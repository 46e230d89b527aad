"""Erased events: what is left of an event once its subject was erased (pure).

The text begins with `recordedtime`. No sender can send that: the gateway refuses an event that
has this member, and adds its own at the end.
"""

import re
from typing import Final

ERASED_START: Final = '{"recordedtime":'
PSEUDONYM_PREFIX: Final = "erased-"
_PSEUDONYM: Final = re.compile(f"{PSEUDONYM_PREFIX}[0-9A-HJKMNP-TV-Z]{{26}}")


def is_erased(text: bytes | memoryview) -> bool:
    """Whether a text of an event was left by an erasure: it says when, of what type, and where it
    came from, but not what it carried.
    """
    return bytes(text[: len(ERASED_START)]) == ERASED_START.encode()


def is_pseudonym(subject: str) -> bool:
    """Whether a subject has the form of those that stand for erased ones."""
    return _PSEUDONYM.fullmatch(subject) is not None
