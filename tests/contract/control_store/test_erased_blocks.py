"""What erasures promise of blocks in the control store, on both databases."""

import pytest

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.blocks import SqlBlockLedger
from meterline.backends.control_store.progress.erasures import SqlErasureStore
from meterline.backends.control_store.progress.progress import SqlProgressStore
from meterline.ports import Unavailable
from meterline.usage import Block, Masks, Renewal, Stretch, block_number

NOW = 1_770_000_000_000
NAME = "alice"


@pytest.fixture
def store(control_database: Database) -> SqlErasureStore:
    return SqlErasureStore(control_database)


async def test_no_block_becomes_readable_but_with_the_switch(
    store: SqlErasureStore, control_database: Database
) -> None:
    ledger = SqlBlockLedger(control_database)
    log = await SqlProgressStore(control_database).register_log("log", 1)
    old, other, new = (
        Block(block_number(NOW, at), log, (Stretch(0, 0, 5),), 0, 9) for at in range(3)
    )
    await ledger.begin(old)
    assert await ledger.publish(old, {"hours": 1}, (), NOW)
    asked = await store.ask("n", NAME, NOW)
    await ledger.begin(other)
    assert not await ledger.publish(other, {"hours": 1}, [old.number], NOW)
    await store.set_borders(asked.id, log, {0: 0}, NOW)
    await store.begin_copying(asked.id, NOW)
    await ledger.begin(new)
    masks = Masks(store)
    before = await masks.all()
    with pytest.raises(Unavailable):
        await store.switch(asked.id, [Renewal(new, {"hours": 1}, [other.number])], NOW)
    assert await masks.all() == before
    await store.switch(asked.id, [Renewal(new, {"hours": 1}, [old.number])], NOW)
    assert await masks.all() != before
    states = {it.number: it.state.value for it in await ledger.blocks(log)}
    assert states == {old.number: "replaced", other.number: "gone", new.number: "readable"}
