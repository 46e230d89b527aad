"""Every operation asks for a key, for its own scope and for nothing else; what is no operation is
told so.
"""

import secrets
from collections.abc import Mapping

import pytest

from meterline.access import SECRET_BYTES, Scope, token_of
from tests.conformance.cases import asked, request
from tests.conformance.conftest import People
from tests.conformance.installation import Caller, Installation
from tests.conformance.worlds import ghosts
from tests.journey.client import Answer
from tests.journey.deadline import until
from tests.openapi import Published, published

V3, V1 = published()
ALL = {**V3.operations, **V1.operations}
OPEN = frozenset({"get-session", "create-session", "renew-session", "delete-session"})
"""Who signs in to the console has no key in a header yet; tests of their own say what they tell."""
EVERY = {name: one for name, one in ALL.items() if name not in OPEN}
DEADLINE_S = 60.0  # the promise of 5 seconds is held by tests of the key ring, on their own clock
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
UNKNOWN = token_of("01M7ZMF4YA7D2SQ292V0W9JPT8", bytes(SECRET_BYTES)).text
REFUSED = {
    "nothing": None,
    "an empty header": "",
    "a scheme alone": "Bearer",
    "no token": "Bearer x",
    "another scheme": f"Basic {UNKNOWN}",
    "two tokens": f"Bearer {UNKNOWN} {UNKNOWN}",
    "a key that nobody has": f"Bearer {UNKNOWN}",
    "bytes that are no text": "Bearer \xff\xfe",
    "a token without end": f"Bearer {'x' * 5_000}",
}


def scope_of(one: Published) -> Scope:
    """What an operation asks for."""
    assert one.scope is not None, f"{one.id} is open to all: say so here"
    return Scope(one.scope)


def problem(answer: Answer, status: int, name: str) -> Mapping[str, object]:
    """The problem that an answer tells."""
    assert answer.status == status, answer.body
    document: dict[str, object] = answer.json
    assert document["type"] == f"urn:meterline:problem:{name}"
    assert document["instance"] == f"urn:request:{answer.headers['x-request-id']}"
    return document


@pytest.mark.parametrize("name", EVERY)
def test_a_key_is_asked_for(installation: Installation, people: People, name: str) -> None:
    one, names = EVERY[name], people.ours.by_id()
    own = people.ours.owner.key
    assert own is not None
    wrong = f"Bearer {own[:-43]}{secrets.token_urlsafe(32)}"  # a right id, and a guess
    for header in (*REFUSED.values(), wrong):
        caller = installation.caller()
        if header is not None:
            caller.headers["Authorization"] = header
        answer = asked(caller, one, names)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", sorted(OPEN))
def test_without_a_cookie_nobody_is_signed_in(installation: Installation, name: str) -> None:
    assert ALL[name].scope is None
    answer = asked(installation.caller(), ALL[name], {})
    if name == "get-session":
        assert answer.json["signed_in"] is False
    elif name == "delete-session":
        assert answer.status == 204
    elif name == "create-session":
        problem(answer, 403, "forbidden")  # without the header of the console
    else:
        problem(answer, 401, "unauthenticated")


def test_a_key_that_is_revoked_opens_nothing(installation: Installation, people: People) -> None:
    (caller,) = installation.callers([("revoked", frozenset(Scope))])
    assert caller.key is not None
    caller.wanted("DELETE", f"/api/v3/metering/api-keys/{caller.key.split('_')[1]}", 204)

    def refused() -> bool:
        return caller.ask("GET", "/api/v3/metering/meters").status == 401

    until("the revoked key is refused", DEADLINE_S, refused)
    for one in EVERY.values():
        problem(asked(caller, one, people.ours.by_id()), 401, "unauthenticated")


def _answered(caller: Caller, one: Published, names: Mapping[str, str]) -> Answer:
    """What is answered to who comes again where he is told to: a store was busy, or changed."""
    answers: list[Answer] = []

    def told() -> bool:
        answers.append(asked(caller, one, names))
        return answers[-1].status != 503 or "retry-after" not in answers[-1].headers

    until(f"{one.id} is answered", DEADLINE_S, told)
    return answers[-1]


@pytest.mark.parametrize("name", EVERY)
def test_its_scope_is_asked_for_and_no_other(people: People, name: str) -> None:
    one, names = EVERY[name], people.ours.by_id()
    scope = scope_of(one)
    document = problem(asked(people.lacking[scope], one, names), 403, "forbidden")
    assert scope.value in str(document["detail"])
    answer = _answered(people.having[scope], one, ghosts(names))
    assert answer.status in (200, 201, 202, 204, 404, 400, 409), answer.body
    # a body that is wrong is not looked at before
    if one.body is not None:
        path = one.path(names)
        answer = people.lacking[scope].ask(one.method, path, b"{", "application/json")
        problem(answer, 403, "forbidden")


def test_what_is_forbidden_changes_nothing(people: People) -> None:
    ours = people.ours
    before = ours.everything()
    for one in EVERY.values():
        for names in (ours.by_id(), ours.by_name()):
            asked(people.lacking[scope_of(one)], one, names)
    assert ours.everything() == before


def templates() -> dict[str, Published]:
    return {one.template: one for one in ALL.values()}


def asking(template: str, people: People) -> str:
    """A path of the template that something is found at, with a query where one is asked for."""
    one, names = templates()[template], people.ours.by_id()
    return request(one, names)[1] if one.demanding else one.path(names)


@pytest.mark.parametrize("template", templates())
def test_other_methods_are_told_which_there_are(people: People, template: str) -> None:
    path = asking(template, people)
    there = {one.method for one in ALL.values() if one.template == template}
    expected = there | ({"HEAD"} if "GET" in there else set())
    owner = people.ours.owner
    for method in {*METHODS} - there:
        answer = owner.ask(method, path)
        problem(answer, 405, "method-not-allowed")
        assert set(answer.headers["allow"].split(",")) == expected
    head = owner.ask("HEAD", path)
    assert head.status == (200 if "GET" in there else 405)
    assert head.body == b""


@pytest.mark.parametrize("template", [one for one in templates() if one.startswith(V3.prefixes[0])])
def test_the_other_name_of_each_path_of_v3_answers_the_same(people: People, template: str) -> None:
    path = asking(template, people)
    alias = V3.prefixes[1] + path.removeprefix(V3.prefixes[0])
    owner = people.ours.owner
    ways = {one.method for one in ALL.values() if one.template == template}
    assert owner.ask("PATCH", alias).headers["allow"] == owner.ask("PATCH", path).headers["allow"]
    if "GET" in ways:
        assert owner.ask("GET", alias).status == 200
