"""Fixtures of the walls and the document: one installation with keys, and who calls it."""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from meterline.access import EVERY_SCOPE, Scope
from tests.conformance import schemathesis
from tests.conformance.installation import Caller, Installation, installed
from tests.conformance.scale import EXAMPLES, SEED, SEED_VARIABLE
from tests.conformance.worlds import World, make_world
from tests.journey.receiver import Mailbox, receiving

HERE = Path(__file__).parent
OWNER = EVERY_SCOPE - {Scope.OPERATE}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for schemathesis goes last of these: it works beside the others."""
    places = [place for place, item in enumerate(items) if HERE in item.path.parents]
    ours = sorted((items[place] for place in places), key=_waits)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def _waits(item: pytest.Item) -> bool:
    return "campaigns" in getattr(item, "fixturenames", ())


@dataclass(frozen=True, slots=True)
class People:
    """Who is there: two namespaces with the same names in them, and others with nothing."""

    ours: World
    twin: World
    stranger: Caller
    newcomers: dict[str, Caller]
    """By the version whose operations they call: they make things, with names that we have."""
    lacking: dict[Scope, Caller]
    """In our namespace: every scope but this one."""
    having: dict[Scope, Caller]
    """In a namespace of nobody: this scope alone."""


@pytest.fixture(scope="package")  # not of the session: it would go on working beside what follows
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("conformance")) as one:
        yield one


@pytest.fixture(scope="package")
def people(installation: Installation) -> Iterator[People]:
    scopes = sorted(EVERY_SCOPE)
    made = installation.callers(
        [
            *((name, OWNER) for name in ("ours", "twin", "stranger", "new-v3", "new-v1")),
            *(("ours", EVERY_SCOPE - {scope}) for scope in scopes),
            *(("nobody", {scope}) for scope in scopes),
        ]
    )
    ours, twin, stranger, new_v3, new_v1, *others = made
    owners = {"ours": ours, "twin": twin}
    with receiving() as receiver:
        boxes = [receiver.mailbox(name) for name in owners]
        with ThreadPoolExecutor(len(owners)) as threads:  # both wait for their runs
            worlds = threads.map(make_world, owners.values(), owners, boxes)
            our_world, twin_world = worlds
        yield People(
            our_world,
            twin_world,
            stranger,
            {"v3": new_v3, "v1": new_v1},
            dict(zip(scopes, others[: len(scopes)], strict=True)),
            dict(zip(scopes, others[len(scopes) :], strict=True)),
        )


@pytest.fixture(scope="package")
def campaigns(
    installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Mapping[str, Future[tuple[int, str]]]]:
    """Exit code and words of schemathesis for each document, in namespaces of their own."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    folder = tmp_path_factory.mktemp("schemathesis")

    def say(version: str, words: str) -> None:
        assert capture is not None
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{version}: {words}")
            sys.stderr.flush()

    def go(version: str, box: Mailbox) -> tuple[int, str]:
        (owner,) = installation.callers([(f"fuzz-{version}", OWNER)])
        world = make_world(owner, f"fuzz-{version}", box)
        campaign = schemathesis.Campaign(
            installation.url, version, owner.key or "", world.names, schemathesis.spare_of(owner)
        )
        return schemathesis.run(campaign, folder / version, lambda words: say(version, words))

    say("documents", f"{EXAMPLES} examples an operation of seed {SEED}; {SEED_VARIABLE}={SEED}")
    versions = schemathesis.DOCUMENTS
    with receiving() as receiver, ThreadPoolExecutor(len(versions)) as threads:
        yield {name: threads.submit(go, name, receiver.mailbox(name)) for name in versions}


@pytest.fixture(scope="package", autouse=True)
def begun(request: pytest.FixtureRequest) -> None:
    """Schemathesis takes long and is a process of its own: it goes on while others are tested."""
    if any(_waits(item) for item in request.session.items):
        request.getfixturevalue("campaigns")
