"""Access: what a caller may do, and in whose name (contract section 5).

A key is `mtl_<its id>_<its secret>`. The id is no secret: it is in logs, lists and the record of
changes. The secret is 32 random bytes, of which only a hash is kept: with so much randomness a fast
hash cannot be searched, and a slow one before each request would be a way to bring it down.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Literal

from meterline.access.change import COMMAND
from meterline.event import DEFAULT_NAMESPACE
from meterline.limits import (
    AUTHORIZATION_CHARS_MAX,
    KEY_NAME_CHARS_MAX,
    KEY_OVERLAP_S_MAX,
    PLAN_NAME_CHARS_MAX,
)
from meterline.problem import Fault, Problem, ProblemType


class Scope(StrEnum):
    """What a key may be allowed. Reading does not come with writing: each is named."""

    EVENTS_WRITE = "events:write"  # send events
    EVENTS_READ = "events:read"  # list them, with their payloads
    METERS_READ = "meters:read"
    METERS_WRITE = "meters:write"
    SUBJECTS_READ = "subjects:read"
    SUBJECTS_WRITE = "subjects:write"
    SUBJECTS_ERASE = "subjects:erase"  # names and payloads, for good
    USAGE_READ = "usage:read"
    REPORTS_READ = "reports:read"
    REPORTS_WRITE = "reports:write"
    SECRETS_READ = "secrets:read"  # signing secrets, shown and rotated
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"  # a key makes keys in its own namespace, with no more than its scopes
    CHANGES_READ = "changes:read"  # who changed what
    STATUS_READ = "status:read"
    OPERATE = (
        "operate"  # what belongs to the installation and no namespace; by `meterline keys` only
    )


EVERY_SCOPE: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: everything that a handler knows of the caller.

    `author` is what the record of changes says: `key:<id>`, `anonymous` (mode none), `settings`
    or `command`. `plan` names the limits that apply; None: no limit.
    """

    namespace: str
    author: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    plan: str | None = None


ANONYMOUS: Final = Principal(DEFAULT_NAMESPACE, "anonymous", EVERY_SCOPE)
"""Whoever asks where no keys are asked for (mode none; contract section 5, rule 3)."""


DEFAULT_PLAN: Final = "default"
"""The plan of whoever names none, where the settings have one of this name."""
SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"mtl_([0-7][0-9A-HJKMNP-TV-Z]{25})_([A-Za-z0-9_-]{43})", re.ASCII)
_BEARER: Final = re.compile(r"bearer +([!-~]+) *", re.ASCII | re.IGNORECASE)
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_NO_HASH: Final = bytes(hashlib.sha256().digest_size)


@dataclass(frozen=True, slots=True)
class Token:
    """What a caller shows: the id of a key, and a secret that no `repr` tells."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """As it is given out once, and sent in every request from then on."""
        return f"mtl_{self.key_id}_{self.secret}"


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """A key as someone asks for it, not yet judged."""

    name: str
    scopes: frozenset[Scope]
    plan: str | None = None
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class KeyUpdate:
    """What of a key is to change. None: as it is; an empty plan: no plan."""

    name: str | None = None
    scopes: frozenset[Scope] | None = None
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept. After a rotation the previous secret is good until its overlap ends."""

    id: str
    namespace: str
    name: str
    scopes: frozenset[Scope]
    created_at_ms: int
    created_by: str
    secret_hash: bytes = field(repr=False)
    plan: str | None = None
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    previous_hash: bytes | None = field(default=None, repr=False)
    previous_until_ms: int | None = None
    rotated_at_ms: int | None = None
    last_used_at_ms: int | None = None

    @property
    def principal(self) -> Principal:
        """Who asks with this key."""
        return Principal(self.namespace, f"key:{self.id}", self.scopes, self.id, self.plan)

    def state(self, now_ms: int) -> Literal["active", "expired", "revoked"]:
        """As people are told; only an active key passes."""
        if self.revoked_at_ms is not None:
            return "revoked"
        return "expired" if _is_over(self.expires_at_ms, now_ms) else "active"


class Verdict(Enum):
    """What a token is worth. Only with the right secret is anything said about its key."""

    UNKNOWN = "unknown"  # there is no such key
    WRONG = "wrong"  # there is, with another secret
    REVOKED = "revoked"
    EXPIRED = "expired"
    REPLACED = "replaced"  # the secret before the last rotation, after its overlap
    PREVIOUS = "previous"  # the same within it: good
    GOOD = "good"

    @property
    def passes(self) -> bool:
        """Is the caller who the key says?"""
        return self is Verdict.GOOD or self is Verdict.PREVIOUS


def verdict(key: ApiKey | None, token: Token, now_ms: int) -> Verdict:
    """Judge a token against the key of its id, at an instant.

    Takes the same time for a wrong secret as for a key that is not there.
    """
    found = hash_of(token.secret)
    return verdict_by(key, lambda kept: hmac.compare_digest(found, kept), now_ms)


def verdict_by(key: ApiKey | None, fits: Callable[[bytes], bool], now_ms: int) -> Verdict:
    """As `verdict`; `fits` says whether what was shown belongs to the secret with this hash."""
    current = fits(key.secret_hash if key else _NO_HASH)
    previous = fits((key.previous_hash if key else None) or _NO_HASH)
    if key is None:
        return Verdict.UNKNOWN
    if not current and not (previous and key.previous_hash):  # anybody can fit what is no hash
        return Verdict.WRONG
    if key.revoked_at_ms is not None:
        return Verdict.REVOKED
    if _is_over(key.expires_at_ms, now_ms):
        return Verdict.EXPIRED
    if current:
        return Verdict.GOOD
    return Verdict.REPLACED if _is_over(key.previous_until_ms, now_ms) else Verdict.PREVIOUS


def _is_over(until_ms: int | None, now_ms: int) -> bool:
    return until_ms is not None and until_ms <= now_ms


def token_of(key_id: str, random: bytes) -> Token:
    """The token of a key from 32 random bytes."""
    assert len(random) == SECRET_BYTES, "less could be guessed"
    return Token(key_id, urlsafe_b64encode(random).rstrip(b"=").decode())


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def parse_token(text: str) -> Token | None:
    """A token as it was given out; None for anything else."""
    found = _TOKEN.fullmatch(text)
    return Token(found[1], found[2]) if found else None


def bearer_text(authorization: str) -> str | None:
    """What an `Authorization` header carries by the Bearer scheme (RFC 6750), whatever that is."""
    if len(authorization) > AUTHORIZATION_CHARS_MAX:
        return None
    found = _BEARER.fullmatch(authorization)
    return found[1] if found else None


def faults_of(
    draft: KeyDraft, giver: Principal, plans: Collection[str], now_ms: int
) -> list[Fault]:
    """All that is wrong with a key that `giver` asks for; `plans` are those of the settings.

    A key gives no more than it has: no scope beyond its own, and no other plan than its own, or it
    could lift its own limits. Whoever may operate the installation gives any plan; that scope
    itself is given by a command on the machine only.
    """
    faults: list[Fault] = []
    if not 1 <= len(draft.name) <= KEY_NAME_CHARS_MAX:
        faults.append(Fault("name", f"1 to {KEY_NAME_CHARS_MAX} characters", rule="max_length"))
    if not draft.name.isprintable():  # it is shown on terminals
        faults.append(Fault("name", "holds a control character", rule="matches_regex"))
    if not draft.scopes:
        faults.append(Fault("scopes", "a key needs at least one scope", rule="min_items"))
    if Scope.OPERATE in draft.scopes and giver.author != COMMAND:
        reason = f"{Scope.OPERATE} is given by the command `meterline keys create` only"
        faults.append(Fault("scopes", reason, rule="scope_by_command"))
    elif beyond := _listed(draft.scopes - giver.scopes):
        reason = f"you do not have {beyond}, so you cannot give it"
        faults.append(Fault("scopes", reason, rule="scope_beyond_own"))
    if _is_over(draft.expires_at_ms, now_ms):
        faults.append(Fault("expires_at", "is over already", rule="minimum"))
    return faults + _plan_faults(draft.plan, giver, plans)


def update_faults(update: KeyUpdate, giver: Principal, plans: Collection[str]) -> list[Fault]:
    """All that is wrong with a change that `giver` asks for; the rules of `faults_of` hold."""
    name = "unchanged" if update.name is None else update.name
    scopes = giver.scopes - {Scope.OPERATE} if update.scopes is None else update.scopes
    # 0: it does not expire by this change
    faults = faults_of(KeyDraft(name, scopes, update.plan or None), giver, plans, 0)
    if update.plan == "" and giver.plan is not None and Scope.OPERATE not in giver.scopes:
        faults.append(_PLAN_BEYOND_OWN)
    return faults


def refusal(key: ApiKey, giver: Principal) -> Problem | None:
    """Why `giver` may not change, rotate or revoke a key of its namespace; None where it may.

    Whoever gets the new secret of a key has its scopes: so it must have had them.
    """
    beyond = _listed(key.scopes - giver.scopes)
    if not beyond:
        return None
    detail = f"API key {key.name!r} has {beyond}, which you do not have, so you cannot change it."
    return Problem(ProblemType.FORBIDDEN, detail)


def lacks_plan(key: ApiKey, plans: Collection[str]) -> bool:
    """Whether a key names a plan that the settings do not have: other limits apply to it then (see
    `throttle.Throttle`).
    """
    return key.plan is not None and key.plan not in plans


def rotation_refusal(key: ApiKey, giver: Principal, plans: Collection[str]) -> Problem | None:
    """Why `giver` may not have the new secret of a key that it may change; None where it may.

    The secret comes with the plan of its key: with another one than its own, the giver could lift
    its own limits. Whoever has none, as the settings have it, has nothing to lift.
    """
    own = giver.plan if giver.plan in plans else DEFAULT_PLAN
    its = key.plan if key.plan in plans else DEFAULT_PLAN
    if own == its or own not in plans or Scope.OPERATE in giver.scopes:
        return None
    message = "has another plan than your key; rotate it with `meterline keys rotate`"
    detail = f"API key {key.name!r} {message}."
    return Problem(ProblemType.FORBIDDEN, detail)


_PLAN_BEYOND_OWN: Final = Fault(
    "plan",
    "only a key with the scope operate may give another plan than its own",
    rule="plan_beyond_own",
)


def _plan_faults(plan: str | None, giver: Principal, plans: Collection[str]) -> list[Fault]:
    if plan is None or (plan == giver.plan and giver.key_id is not None):
        return []
    if len(plan) > PLAN_NAME_CHARS_MAX or plan not in plans:
        known = f"known: {', '.join(sorted(plans))}" if plans else "the settings have no plans"
        return [Fault("plan", f"{plan[:PLAN_NAME_CHARS_MAX]!r} is no plan; {known}", rule="enum")]
    return [] if Scope.OPERATE in giver.scopes else [_PLAN_BEYOND_OWN]


def _listed(scopes: Collection[Scope]) -> str:
    return ", ".join(sorted(scopes))


def namespace_faults(namespace: str) -> list[Fault]:
    """What is wrong with the name of a namespace; a key is what brings one into being."""
    if _NAMESPACE.fullmatch(namespace):
        return []
    reason = "1 to 64 letters, digits, `_`, `-` and `.`, the first a letter or digit"
    return [Fault("namespace", reason, rule="matches_regex")]


def overlap_faults(overlap_s: int) -> list[Fault]:
    """What is wrong with a time during which a rotated secret stays good."""
    if 0 <= overlap_s <= KEY_OVERLAP_S_MAX:
        return []
    reason = f"a whole number of seconds from 0 to {KEY_OVERLAP_S_MAX}"
    return [Fault("overlap_seconds", reason, rule="maximum")]
