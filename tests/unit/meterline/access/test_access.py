import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.access import (
    ANONYMOUS,
    COMMAND,
    EVERY_SCOPE,
    ApiKey,
    KeyDraft,
    KeyUpdate,
    Principal,
    Scope,
    Token,
    Verdict,
    bearer_text,
    faults_of,
    hash_of,
    namespace_faults,
    overlap_faults,
    parse_token,
    refusal,
    rotation_refusal,
    token_of,
    update_faults,
    verdict,
)
from meterline.limits import AUTHORIZATION_CHARS_MAX, KEY_OVERLAP_S_MAX
from meterline.problem import ProblemType

NOW_MS = 1_700_000_000_000
ID = "01HF7YAT00V3TVHZZZZZZZZZZZ"
TOKEN = token_of(ID, bytes(range(32)))
OLD_TOKEN = token_of(ID, bytes(32))
WRITE, READ = Scope.EVENTS_WRITE, Scope.USAGE_READ
KEY = ApiKey(
    id=ID,
    namespace="shop",
    name="gateway",
    scopes=frozenset({WRITE}),
    created_at_ms=NOW_MS,
    created_by="command",
    secret_hash=hash_of(TOKEN.secret),
    plan="small",
)
ROTATED = replace(KEY, previous_hash=hash_of(OLD_TOKEN.secret), previous_until_ms=NOW_MS + 100)
GIVER = Principal("shop", f"key:{ID}", frozenset({WRITE, READ, Scope.KEYS_WRITE}), ID, "small")
OPERATOR = Principal("shop", COMMAND, EVERY_SCOPE)


def test_a_token_has_a_form_that_scanners_of_secrets_can_know() -> None:
    assert TOKEN.text == f"mtl_{ID}_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert len(TOKEN.text) == 74


@given(st.binary(min_size=32, max_size=32))
def test_every_token_reads_back(random: bytes) -> None:
    token = token_of(ID, random)
    assert parse_token(token.text) == token
    assert bearer_text(f"Bearer {token.text}") == token.text


def test_a_token_of_too_little_randomness_is_never_made() -> None:
    with pytest.raises(AssertionError, match="guessed"):
        token_of(ID, bytes(31))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mtl_",
        TOKEN.text[:-1],
        TOKEN.text + "A",
        TOKEN.text.replace("mtl_", "MTL_"),
        TOKEN.text.replace(ID, ID.lower()),
        TOKEN.text.replace("_AAEC", "_AA=C"),
        TOKEN.text.replace("_AAEC", "_AAÉC"),
        TOKEN.text.replace("01HF", "81HF"),  # beyond 128 bits
        f" {TOKEN.text}",
        f"{TOKEN.text}\n",
    ],
)
def test_anything_else_is_no_token(text: str) -> None:
    assert parse_token(text) is None


@pytest.mark.parametrize("header", ["Bearer x", "bearer x", "BEARER x", "Bearer   x", "Bearer x  "])
def test_the_scheme_may_be_written_in_any_case(header: str) -> None:
    assert bearer_text(header) == "x"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "x", "Basic x", "Bearer x y", "Bearerx", "Bearer é", " Bearer x"],
)
def test_other_headers_carry_nothing(header: str) -> None:
    assert bearer_text(header) is None


def test_a_header_is_bounded() -> None:
    room = AUTHORIZATION_CHARS_MAX - len("Bearer ")
    assert bearer_text("Bearer " + "x" * room) == "x" * room
    assert bearer_text("Bearer " + "x" * (room + 1)) is None


@given(st.text(max_size=100))
def test_no_header_breaks_the_reading_of_it(text: str) -> None:
    for header in (text, f"Bearer {text}"):
        shown = bearer_text(header)
        assert shown is None or shown in header
        assert shown is None or parse_token(shown) is None


def test_only_a_hash_is_kept_and_nothing_secret_is_told() -> None:
    assert hash_of(TOKEN.secret) == hashlib.sha256(TOKEN.secret.encode()).digest()
    told = repr(TOKEN) + repr(ROTATED) + repr(KEY.principal)
    assert TOKEN.secret not in told
    for kept in (KEY.secret_hash, ROTATED.previous_hash):
        assert repr(kept) not in told
    assert ID in told


def test_a_key_says_who_asks() -> None:
    assert KEY.principal == Principal("shop", f"key:{ID}", frozenset({WRITE}), ID, "small")


REVOKED = replace(ROTATED, revoked_at_ms=NOW_MS - 1)
EXPIRED = replace(ROTATED, expires_at_ms=NOW_MS)
WRONG_TOKEN = Token(ID, "A" * 42 + "B")


@pytest.mark.parametrize(
    ("key", "token", "at_ms", "expected"),
    [
        (None, TOKEN, 0, Verdict.UNKNOWN),
        (KEY, TOKEN, 0, Verdict.GOOD),
        (KEY, OLD_TOKEN, 0, Verdict.WRONG),
        (KEY, WRONG_TOKEN, 0, Verdict.WRONG),
        (ROTATED, TOKEN, 0, Verdict.GOOD),
        (ROTATED, TOKEN, 1_000, Verdict.GOOD),
        (ROTATED, OLD_TOKEN, 99, Verdict.PREVIOUS),
        (ROTATED, OLD_TOKEN, 100, Verdict.REPLACED),
        (REVOKED, TOKEN, 0, Verdict.REVOKED),
        (REVOKED, OLD_TOKEN, 0, Verdict.REVOKED),
        (REVOKED, WRONG_TOKEN, 0, Verdict.WRONG),
        (EXPIRED, TOKEN, 0, Verdict.EXPIRED),
        (EXPIRED, OLD_TOKEN, 0, Verdict.EXPIRED),
        (EXPIRED, TOKEN, -1, Verdict.GOOD),
        (EXPIRED, WRONG_TOKEN, 0, Verdict.WRONG),
        (replace(REVOKED, expires_at_ms=NOW_MS), TOKEN, 0, Verdict.REVOKED),
    ],
)
def test_a_token_is_judged_at_an_instant(
    key: ApiKey | None, token: Token, at_ms: int, expected: Verdict
) -> None:
    assert verdict(key, token, NOW_MS + at_ms) is expected


def test_only_two_verdicts_let_in() -> None:
    assert {one for one in Verdict if one.passes} == {Verdict.GOOD, Verdict.PREVIOUS}


def test_a_key_without_a_previous_secret_has_none_that_fits() -> None:
    assert KEY.previous_hash is None
    nothing = Token(ID, "A" * 43)
    assert verdict(KEY, nothing, NOW_MS) is Verdict.WRONG


def test_the_state_of_a_key() -> None:
    assert KEY.state(NOW_MS) == "active"
    assert EXPIRED.state(NOW_MS - 1) == "active"
    assert EXPIRED.state(NOW_MS) == "expired"
    assert replace(EXPIRED, revoked_at_ms=NOW_MS).state(NOW_MS) == "revoked"


# --- who may give what ---


def _rules(
    draft: KeyDraft, giver: Principal = GIVER, plans: tuple[str, ...] = ("small",)
) -> set[str]:
    return {f"{fault.field}: {fault.rule}" for fault in faults_of(draft, giver, plans, NOW_MS)}


def _draft(*scopes: Scope, plan: str | None = None) -> KeyDraft:
    return KeyDraft("gateway", frozenset(scopes or {WRITE}), plan)


def test_a_key_gives_what_it_has() -> None:
    assert _rules(_draft(WRITE, READ, Scope.KEYS_WRITE, plan="small")) == set()
    assert _rules(_draft(plan="small"), plans=()) == set(), "also a plan that is gone meanwhile"


def test_a_key_gives_no_scope_that_it_lacks() -> None:
    assert _rules(_draft(WRITE, Scope.METERS_WRITE)) == {"scopes: scope_beyond_own"}
    (fault,) = faults_of(_draft(Scope.METERS_WRITE, Scope.KEYS_READ), GIVER, (), NOW_MS)
    assert "keys:read, meters:write" in fault.reason


def test_a_key_gives_no_other_plan_than_its_own() -> None:
    plans = ("small", "large")
    assert _rules(_draft(plan="large"), plans=plans) == {"plan: plan_beyond_own"}
    assert _rules(_draft(plan="huge"), plans=plans) == {"plan: enum"}
    assert _rules(_draft(plan="x" * 1_000), plans=plans) == {"plan: enum"}
    operator = replace(GIVER, scopes=GIVER.scopes | {Scope.OPERATE})
    assert _rules(_draft(plan="large"), operator, plans) == set()
    assert _rules(_draft(plan="large"), ANONYMOUS, plans) == set()


def test_operate_is_given_by_a_command_only() -> None:
    operator = replace(GIVER, scopes=EVERY_SCOPE)
    for giver in (GIVER, operator, ANONYMOUS):
        assert _rules(_draft(Scope.OPERATE), giver) == {"scopes: scope_by_command"}
    assert _rules(_draft(Scope.OPERATE), OPERATOR) == set()


def test_all_faults_are_told_at_once() -> None:
    draft = KeyDraft("", frozenset(), "huge", NOW_MS)
    assert _rules(draft) == {
        "name: max_length",
        "scopes: min_items",
        "plan: enum",
        "expires_at: minimum",
    }
    assert _rules(replace(_draft(), name="x" * 257, expires_at_ms=NOW_MS + 1)) == {
        "name: max_length"
    }


def _update_rules(update: KeyUpdate, giver: Principal = GIVER) -> set[str]:
    faults = update_faults(update, giver, ("small", "large"))
    return {f"{fault.field}: {fault.rule}" for fault in faults}


def test_an_update_is_judged_by_what_it_names() -> None:
    assert _update_rules(KeyUpdate()) == set()
    assert _update_rules(KeyUpdate("door", frozenset({READ}), "small")) == set()
    assert _update_rules(KeyUpdate("", frozenset(), "huge")) == {
        "name: max_length",
        "scopes: min_items",
        "plan: enum",
    }
    assert _update_rules(KeyUpdate(scopes=frozenset({Scope.SECRETS_READ}))) == {
        "scopes: scope_beyond_own"
    }


def test_nobody_takes_a_plan_away_to_be_without_limits() -> None:
    assert _update_rules(KeyUpdate(plan="")) == {"plan: plan_beyond_own"}
    assert _update_rules(KeyUpdate(plan="large")) == {"plan: plan_beyond_own"}
    assert _update_rules(KeyUpdate(plan=""), OPERATOR) == set()
    assert _update_rules(KeyUpdate(plan=""), replace(GIVER, plan=None)) == set()


def test_whoever_may_change_a_key_has_its_scopes() -> None:
    assert refusal(KEY, GIVER) is None
    stronger = replace(KEY, scopes=frozenset({WRITE, Scope.SECRETS_READ}))
    refused = refusal(stronger, GIVER)
    assert refused is not None
    assert refused.type is ProblemType.FORBIDDEN
    assert "secrets:read" in refused.detail


@pytest.mark.parametrize(
    ("own", "its", "plans", "allowed"),
    [
        ("small", "small", ("small", "large"), True),
        ("small", "large", ("small", "large"), False),
        ("small", None, ("small", "large"), False),  # without limits
        ("small", "gone", ("small", "large"), False),  # the same
        (None, "large", ("large",), True),  # the giver has no limits itself
        (None, "large", ("default", "large"), False),
        (None, "default", ("default", "large"), True),
        ("default", None, ("default", "large"), True),
        ("gone", "small", ("small",), True),
    ],
)
def test_nobody_gets_another_plan_with_the_secret_of_another_key(
    own: str | None, its: str | None, plans: tuple[str, ...], allowed: bool
) -> None:
    key, giver = replace(KEY, plan=its), replace(GIVER, plan=own)
    refused = rotation_refusal(key, giver, plans)
    assert (refused is None) is allowed
    assert refused is None or refused.type is ProblemType.FORBIDDEN
    operator = replace(giver, scopes=giver.scopes | {Scope.OPERATE})
    assert rotation_refusal(key, operator, plans) is None


@pytest.mark.parametrize("name", ["default", "a", "Shop-1.eu_x", "0", "x" * 64])
def test_namespaces(name: str) -> None:
    assert namespace_faults(name) == []


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", ".a", "-a", "ä", "a\n", "a/b"])
def test_what_is_no_namespace(name: str) -> None:
    assert [fault.field for fault in namespace_faults(name)] == ["namespace"]


def test_an_overlap_is_bounded() -> None:
    assert overlap_faults(0) == overlap_faults(KEY_OVERLAP_S_MAX) == []
    for overlap_s in (-1, KEY_OVERLAP_S_MAX + 1):
        assert [fault.field for fault in overlap_faults(overlap_s)] == ["overlap_seconds"]
