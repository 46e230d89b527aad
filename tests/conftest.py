"""Fixtures for every test: the three real servers, each started when first asked for; which tier is
run, and what runs side by side.
"""

import asyncio
import gc
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web_app
from hypothesis import settings

from meterline.backends.clickhouse.clients.access import connected
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.migrate import migrate
from tests.deploy.image import Image, build
from tests.scratch import memory_folder
from tests.services.choose import open_service
from tests.services.fallen import started_again, words_of
from tests.services.local import fallen
from tests.services.service import Service, ServiceError
from tests.side_by_side import SideBySide, is_in_share, turn
from tests.tiers import MARKS, Tier, folder_of, holds_some, tier_of

PARTS_MAX: Final = 200  # of a store that tests share
LOGS_END: Final = 1_000

# How long an example takes says more of the machine than of the rule.
settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", settings.get_profile("untimed"), max_examples=15)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say up to which tier tests are run; all, unless it is said."""
    names = [tier.name.lower() for tier in Tier]
    words = "run tests up to this tier (tests/tiers.py); by default all"
    parser.addoption("--tier", choices=names, default=names[-1], help=words)
    words = "run only the long tests, and of them one share (tests/side_by_side.py); any number"
    parser.addoption("--share", type=int, help=words)


def asked_tier(config: pytest.Config) -> Tier:
    """The tier that this run is of."""
    return Tier[config.getoption("--tier").upper()]


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests and servers are made in memory, where there is room."""
    if asked_tier(config) is Tier.QUICK:
        settings.load_profile("quick")
    for mark, tier in MARKS.items():
        config.addinivalue_line(
            "markers", f"{mark}: of the {tier.name.lower()} tier, whatever the folder"
        )
    if (folder := memory_folder()) is not None:
        tempfile.tempdir = str(folder)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run does not import what it does not run; None: whatever pytest says."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    return None if holds_some(folder_of(path), asked_tier(config)) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out higher tiers and other shares. Where tests run side by side, begin with what takes
    the longest.
    """
    asked = {item: _is_asked(item, config) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not asked[item]])
    items[:] = [item for item in items if asked[item]]
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: turn(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nearly all that is made while tests are looked for stays: the collector finds nothing in it,
    and takes a second in each process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was collected stays: all tests and modules. To walk over it again takes the collector a
    second each time, and properties make it do that often.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """Middlewares are remembered by their application, and so are applications of hundreds of
    tests: the collector walked over all of them.
    """
    web_app._cached_build_middleware.cache_clear()  # noqa: SLF001 - it has no other name


def _is_asked(item: pytest.Item, config: pytest.Config) -> bool:
    share: int | None = config.getoption("--share")
    if share is not None:
        return _tier(item) is Tier.LONG and is_in_share(item.nodeid, share)
    return _tier(item) <= asked_tier(config)


def _tier(item: pytest.Item) -> Tier:
    marks = (mark.name for mark in item.iter_markers())
    return tier_of(item.nodeid.split("::", 1)[0], marks, getattr(item, "fixturenames", ()))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is told at once: a run that is broken off, or hangs, has said what it knew."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\n{report.nodeid} failed in its {report.when}\n{report.longreprtext}\n")
        sys.stderr.flush()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails tells of processes that ended by themselves."""
    report = yield
    if report.failed:
        report.sections += [("a process that ended", words_of(service)) for service in fallen()]
    return report


@pytest.fixture(autouse=True)
def servers_that_run() -> Iterator[None]:
    """A server that ended by itself fails the test that it was used by, and no other."""
    yield
    if told := started_again():
        pytest.fail("\n".join(told), pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SideBySide:
    """Say what may run side by side."""
    return SideBySide(config, log)


def _serve(kind: str, request: pytest.FixtureRequest) -> Iterator[Service]:
    """Start a server for the session; a server that cannot be had fails the test, never skips."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        if capture is None:
            sys.stderr.write(f"\nservices: {words}\n")
            return
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\nservices: {words}\n")
            sys.stderr.flush()

    try:
        service = open_service(kind, say)
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        try:
            service.start()
        except ServiceError as error:
            pytest.fail(str(error), pytrace=False)
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def kafka_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Kafka, for tests that kill and restart it; leave it running."""
    yield from _serve("kafka", request)


@pytest.fixture(scope="session")
def clickhouse_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """ClickHouse, for tests that kill and restart it; leave it running."""
    yield from _serve("clickhouse", request)


@pytest.fixture(scope="session")
def postgres_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """PostgreSQL, for tests that kill and restart it; leave it running."""
    yield from _serve("postgres", request)


@pytest.fixture(scope="session")
def kafka(kafka_service: Service) -> str:
    """Bootstrap servers, `host:port`. Use fresh topics; topics are not made by themselves."""
    return kafka_service.url


@pytest.fixture(scope="session")
def clickhouse(clickhouse_service: Service) -> str:
    """URL of the HTTP interface, `http://host:port`. Use a fresh database."""
    return clickhouse_service.url


@pytest.fixture(scope="session")
def postgres(postgres_service: Service) -> str:
    """SQLAlchemy URL, `postgresql+asyncpg://...`. Use a fresh schema or database."""
    return postgres_service.url


@pytest.fixture(scope="session")
def chdb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the embedded usage store, one for all tests: chDB allows one folder a process. One
    client is held, for the engine ends with the last one, and to start it takes long.

    Take a log number and meter revisions of your own (`fresh_numbers`).
    """
    url = f"chdb:{tmp_path_factory.mktemp('chdb')}"
    held = connected(url)
    yield url
    held.close()


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The tree of the image, built by the commands of the Dockerfile."""
    with tempfile.TemporaryDirectory(prefix="image-", dir=memory_folder()) as folder:
        Path(folder).chmod(0o755)  # its user goes through it
        yield build(Path(folder))


@pytest.fixture(scope="session")
def fresh_logs() -> Iterator[int]:
    """Numbers of logs that no other test of this process was given. They are small: whoever works
    on a log may ask for all that were before it, by their numbers.
    """
    return iter(range(1, LOGS_END))


@pytest.fixture(scope="session")
def fresh_numbers() -> Iterator[int]:
    """Numbers that no other test of this process was given, nor any log."""
    return iter(range(LOGS_END, 60_000))


@pytest.fixture(scope="session")
def with_tables() -> set[str]:
    """URLs of usage stores that have their tables."""
    return set()


@pytest.fixture
async def usage_store(chdb_url: str, with_tables: set[str]) -> AsyncIterator[ClickHouseUsageStore]:
    """The embedded usage store, with its tables."""
    made = ClickHouseUsageStore(Connection(chdb_url))
    await made_ready(made, chdb_url, with_tables)
    yield made
    await made.close()


async def made_ready(store: ClickHouseUsageStore, url: str, with_tables: set[str]) -> None:
    """It has its tables, and of the rows of tests before only some: they are to change nothing, but
    whoever rewrites a table rewrites all of them.
    """
    if url not in with_tables:
        await store.create_tables()
        with_tables.add(url)
        return
    there = "FROM system.parts WHERE active AND database = currentDatabase()"
    ((parts,),) = await store.connection.query(f"SELECT count() {there}", {})
    if parts > PARTS_MAX:
        tables = f"SELECT DISTINCT table {there} AND table != 'installation'"
        for (table,) in await store.connection.query(tables, {}):
            await store.connection.execute(f"TRUNCATE TABLE {table} SYNC")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty control store: copied, it costs a test less than migrations do."""
    path = tmp_path_factory.mktemp("control") / "control.db"

    async def make() -> None:
        database = open_database(f"sqlite:///{path}")
        await migrate(database)
        await database.close()

    asyncio.run(make())
    return path
