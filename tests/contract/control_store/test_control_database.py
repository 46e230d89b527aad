"""The control store's database: what its errors become; broken off transactions run again."""

import asyncio
import gc
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from traceback import format_exception

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from meterline.backends.control_store.connection import Act, Connection
from meterline.backends.control_store.engine import Database, insert, open_database, put
from meterline.backends.control_store.sqlite import BUSY_TIMEOUT_S, READERS
from meterline.backends.control_store.tables.meters import flushed, logs
from meterline.ports import AccessRefused, Unavailable

SEEN_WITHIN_S = 60.0


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://user:hidden@host/db", "mysql:// is no control store"),
        ("no url at all", "A control URL is"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_a_wrong_url_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        open_database(url)
    assert "hidden" not in str(caught.value)


async def _one(connection: Connection) -> int:
    return int((await connection.execute(text("SELECT 1"))).scalar_one())


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        database = open_database(f"postgresql://u:hidden@127.0.0.1:{probe.getsockname()[1]}/db")
        with pytest.raises(Unavailable, match="control store") as caught:
            await database.read(_one)
        assert "hidden" not in str(caught.value)
        await database.close()


async def test_a_database_that_is_not_there_refuses_the_access(postgres: str) -> None:
    database = open_database(f"{postgres.rsplit('/', 1)[0]}/no_such_database")
    with pytest.raises(AccessRefused, match="no_such_database"):
        await database.read(_one)
    await database.close()


async def test_a_file_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "control.db").mkdir()
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    with pytest.raises(Unavailable, match="unable to open"):
        await database.read(_one)
    await database.close()


async def test_a_folder_is_made_for_the_file(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a' / 'b' / 'control.db'}")
    assert await database.read(_one) == 1
    await database.close()


@pytest.mark.parametrize("asks", [Database.read, Database.write])
async def test_a_connection_that_the_server_ended_costs_nothing(
    postgres: str, asks: Callable[[Database, Act[int]], Awaitable[int]]
) -> None:
    database, other = open_database(postgres), open_database(postgres)

    async def own_pid(connection: Connection) -> int:
        return int((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())

    pid = await asks(database, own_pid)

    async def end_it(connection: Connection) -> None:
        await connection.execute(text(f"SELECT pg_terminate_backend({pid}, 5000)"))

    await other.read(end_it)
    assert await asks(database, own_pid) != pid
    await database.close()
    await other.close()


async def test_a_reader_holds_no_transaction_open(postgres: str) -> None:
    """It would keep old rows from being cleared away, and take two more exchanges."""
    database = open_database(postgres)

    async def moments(connection: Connection) -> set[object]:
        asked = text("SELECT now() FROM pg_sleep(0.002)")  # one moment in each transaction
        return {(await connection.execute(asked)).scalar_one() for _ in range(2)}

    assert len(await database.read(moments)) == 2
    assert len(await database.write(moments)) == 1
    await database.close()


async def test_what_is_read_as_of_one_moment_sees_nothing_newer(
    control_database: Database,
) -> None:
    """A backup reads so, while everything goes on."""
    row = {"log": 1, "partition": 0, "catalogue": 1, "offset_end": 0}

    async def ends(connection: Connection) -> list[int]:
        found = await connection.execute(select(flushed.c.offset_end))
        return [int(end) for end in found.scalars()]

    async def go_on(connection: Connection) -> None:
        await connection.execute(update(flushed).values(offset_end=flushed.c.offset_end + 1))

    async def begin(connection: Connection) -> None:
        await put(connection, flushed, [row], by="offset_end")

    await control_database.write(begin)
    seen, written = threading.Event(), threading.Event()

    async def twice(connection: Connection) -> list[list[int]]:
        first = await ends(connection)
        seen.set()
        while not written.is_set():  # both databases go on with others meanwhile
            await connection.execute(text("SELECT 1"))
        return [first, await ends(connection)]

    reading = asyncio.create_task(control_database.read_moment(twice))
    assert await asyncio.to_thread(seen.wait, SEEN_WITHIN_S)
    await control_database.write(go_on)
    written.set()
    assert await reading == [[0], [0]]
    assert await control_database.read_moment(ends) == [1]


async def test_an_error_of_ours_passes_and_undoes_everything(control_database: Database) -> None:
    async def twice(connection: Connection) -> None:
        row = {"number": 1, "id": "one", "partitions": 4}
        await connection.execute(insert(connection, logs).values(row))
        await connection.execute(insert(connection, logs).values(row))

    with pytest.raises(IntegrityError) as failed:
        await control_database.write(twice)
    written = "".join(format_exception(failed.value))
    assert "INSERT INTO logs" in written
    assert "'one'" not in written, "it goes into a log line, which has no value"
    assert "(1)" not in written, "PostgreSQL tells the key that is there already"

    async def count(connection: Connection) -> int:
        return len((await connection.execute(select(logs))).all())

    assert await control_database.read(count) == 0


async def test_a_value_of_the_wrong_kind_is_not_told(control_database: Database) -> None:
    hidden = token_hex(8)  # a traceback shows this line

    async def wrong(connection: Connection) -> None:
        await connection.execute(insert(connection, logs).values(number=hidden, id="1"))

    with pytest.raises(DBAPIError) as failed:
        await control_database.write(wrong)
    assert hidden not in "".join(format_exception(failed.value))


async def test_transactions_that_lock_each_other_out_all_happen(
    control_database: Database,
) -> None:
    async def make(connection: Connection) -> None:
        for partition in (0, 1):
            row = {"log": 1, "partition": partition, "catalogue": 1, "offset_end": 0}
            await put(connection, flushed, [row], by="offset_end")

    await control_database.write(make)

    async def bump_both(order: tuple[int, int]) -> None:
        async def act(connection: Connection) -> None:
            for partition in order:
                await connection.execute(
                    update(flushed)
                    .where(flushed.c.partition == partition)
                    .values(offset_end=flushed.c.offset_end + 1)
                )
                if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
                    await connection.execute(text("SELECT pg_sleep(0.01)"))

        await control_database.write(act)

    await asyncio.gather(
        *(bump_both((0, 1)) for _ in range(2)), *(bump_both((1, 0)) for _ in range(2))
    )

    async def ends(connection: Connection) -> list[int]:
        found = await connection.execute(select(flushed.c.offset_end).order_by(flushed.c.partition))
        return [int(row.offset_end) for row in found]

    assert await control_database.read(ends) == [4, 4]


async def test_two_processes_share_one_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'control.db'}"
    one, other = open_database(url), open_database(url)

    async def make(connection: Connection) -> None:
        await connection.run_sync(flushed.create)
        row = {"log": 1, "partition": 0, "catalogue": 1, "offset_end": 0}
        await put(connection, flushed, [row], by="offset_end")

    await one.write(make)

    async def bump(connection: Connection) -> None:
        end = (await connection.execute(select(flushed.c.offset_end))).scalar_one()
        await connection.execute(update(flushed).values(offset_end=end + 1))

    await asyncio.gather(*(database.write(bump) for database in (one, other) for _ in range(10)))

    async def end(connection: Connection) -> int:
        return int((await connection.execute(select(flushed.c.offset_end))).scalar_one())

    assert await other.read(end) == 20
    await one.close()
    await other.close()


async def test_a_writer_of_another_process_that_does_not_end_is_told_in_time(
    tmp_path: Path,
) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    path = tmp_path / "held.db"
    database = open_database(f"sqlite:///{path}")
    assert await database.write(_one) == 1
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(4 * BUSY_TIMEOUT_S):
        ends = await asyncio.gather(
            *(database.write(_one) for _ in range(4)), return_exceptions=True
        )
    assert {type(end) for end in ends} == {Unavailable}
    other.execute("ROLLBACK")
    other.close()
    assert await database.write(_one) == 1
    await database.close()


async def test_a_transaction_that_is_cancelled_holds_nothing_and_is_whole_or_not_at_all(
    control_database: Database,
) -> None:
    async def both(connection: Connection, number: int) -> None:
        for id_ in ("one", "other"):
            row = {"number": 2 * number + (id_ == "other"), "id": f"{number}-{id_}"}
            await connection.execute(insert(connection, logs).values(row | {"partitions": 1}))

    async def numbers(connection: Connection) -> list[int]:
        return sorted((await connection.execute(select(logs.c.number))).scalars())

    turns = range(40)
    for number in turns:
        task = asyncio.create_task(control_database.write(partial(both, number=number)))
        for _ in range(number):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(BUSY_TIMEOUT_S):  # that nobody has to wait for
        await control_database.write(partial(both, number=len(turns)))
    found = await control_database.read(numbers)
    assert found == sorted({2 * (it // 2) + which for it in found for which in (0, 1)})
    assert found[-1] == 2 * len(turns) + 1


async def test_who_is_cancelled_while_another_process_writes_holds_nothing_later(
    tmp_path: Path,
) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    path = tmp_path / "held.db"
    database = open_database(f"sqlite:///{path}")
    assert await database.write(_one) == 1
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(database.write(_one))
    await asyncio.sleep(0.1)  # its first statement waits for the writer
    task.cancel()
    await asyncio.sleep(0.1)
    other.execute("ROLLBACK")
    await asyncio.gather(task, return_exceptions=True)
    del task
    gc.collect()
    assert complaints == [], "a log line about an error that is nobody's"
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    other.close()
    assert await database.write(_one) == 1
    await database.close()


async def test_a_transaction_of_sqlite_that_waits_for_something_else_is_undone(
    tmp_path: Path,
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")

    async def make_and_wait(connection: Connection) -> None:
        await connection.run_sync(logs.create)
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="a transaction cannot wait"):
        await database.write(make_and_wait)
    await database.write(lambda it: it.run_sync(logs.create))  # or it would be there
    await database.close()


async def test_transactions_that_read_see_one_moment_each_beside_one_that_writes(
    tmp_path: Path,
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    await database.write(lambda it: it.run_sync(logs.create))
    turns = range(10)

    async def add(connection: Connection, number: int) -> None:
        row = {"number": number, "id": str(number), "partitions": 1}
        await connection.execute(insert(connection, logs).values(row))

    async def count_twice(connection: Connection) -> tuple[int, int]:
        first, second = [len((await connection.execute(select(logs))).all()) for _ in range(2)]
        return first, second

    writes = asyncio.gather(*(database.write(partial(add, number=number)) for number in turns))
    counts = await asyncio.gather(*(database.read(count_twice) for _ in range(2 * READERS)))
    await writes
    assert [first - second for first, second in counts] == [0] * len(counts)
    assert await database.read(count_twice) == (len(turns), len(turns))
    await database.close()
