"""Namespaces are walls, for every operation of both documents: what is ours is to others as what
never was, and nothing that they ask for changes it.
"""

from collections.abc import Mapping

import pytest

from tests.conformance.cases import asked
from tests.conformance.conftest import People
from tests.conformance.installation import Caller
from tests.conformance.worlds import ID, World, ghosts, masked
from tests.journey.client import Answer
from tests.openapi import Published, published

V3, V1 = published()
EVERY = {**V3.operations, **V1.operations}
CREATING = frozenset(
    one for one in EVERY if one.lower().startswith(("create", "upsert", "ingest"))
) - {"create-session"}  # which takes no name
ASKING = frozenset({"query-meter", "queryMeterPost"})


def seen_alike(
    caller: Caller, one: Published, names: Mapping[str, str], never: Mapping[str, str]
) -> Answer:
    """The answer about these names, which is that about names that nothing has ever had."""
    answer, other = asked(caller, one, names), asked(caller, one, never)
    assert masked(answer, names) == masked(other, never)
    assert answer.headers.keys() == other.headers.keys()
    return answer


def shows_nothing_of(world: World, answer: Answer, sent: Mapping[str, str]) -> None:
    """No id and no content of a world is in an answer, but for what was sent."""
    text = answer.body.decode()
    assert world.mark not in text
    assert not (set(ID.findall(text)) & world.ids) - set(sent.values())


@pytest.mark.parametrize("name", [one for one in EVERY if one not in CREATING])
def test_a_stranger_sees_what_never_was(people: People, name: str) -> None:
    one, ours = EVERY[name], people.ours
    for names in (ours.by_id(), ours.by_name()):
        answer = seen_alike(people.stranger, one, names, ghosts(names))
        shows_nothing_of(ours, answer, names)
        assert answer.status == 404 or not one.names
        if one.method == "GET" and answer.status == 200 and one.scope != "changes:read":
            shows_nothing_of(people.twin, answer, names)
            listed = answer.json.get("data", []) if isinstance(answer.json, dict) else answer.json
            assert listed in ([], None) or one.scope in ("keys:read", "status:read")


@pytest.mark.parametrize("name", sorted(CREATING))
def test_a_newcomer_can_use_names_that_we_have(people: People, name: str) -> None:
    one, names = EVERY[name], people.ours.by_name()
    newcomer = people.newcomers["v3" if name in V3.operations else "v1"]
    answer = seen_alike(newcomer, one, names, ghosts(names))
    assert answer.status < 300, answer.body
    shows_nothing_of(people.ours, answer, names)


@pytest.mark.parametrize("name", [one for one in EVERY if one not in CREATING])
def test_a_twin_with_the_same_names_sees_its_own(people: People, name: str) -> None:
    one, ours, twin = EVERY[name], people.ours, people.twin
    if one.method == "GET" or name in ASKING:
        answer = asked(twin.owner, one, twin.by_name())
        assert answer.status == 200, answer.body
        shows_nothing_of(ours, answer, {})
    # our ids, each alone among its own names: so that no part of a path is believed unseen
    for part in one.names:
        if ours.names[part][0] != twin.names[part][0]:
            own, mixed = twin.by_id(), {**twin.by_id(), part: ours.by_id()[part]}
            answer = seen_alike(twin.owner, one, mixed, {**own, part: ghosts(mixed)[part]})
            assert answer.status == 404, answer.body
            shows_nothing_of(ours, answer, mixed)


def test_after_all_of_it_nothing_of_ours_has_changed(people: People) -> None:
    ours = people.ours
    before = ours.everything()
    assert all(ours.mark in before[name] for name in ("get-meter", "list-metering-events"))
    for one in EVERY.values():
        for names in (ours.by_id(), ours.by_name()):
            asked(people.stranger, one, names)
    assert ours.everything() == before
