"""The rights that docs/operations.md names are enough for several servers."""

import re
from pathlib import Path
from typing import Final

from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.holdings import ClickHouseHoldings, ClickHousePeriods
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.runtime.commands.doctor.finding import Level
from meterline.runtime.commands.doctor.servers import look_at_clickhouse
from meterline.runtime.settings.reading import Settings
from meterline.usage import Block, Stretch, UsageQuery, block_number
from meterline.window import parse_instant
from tests.contract.usage.sharded import opened
from tests.contract.usage.slices import event, folded, meter
from tests.services.shards import CLUSTER, shards

DOCS: Final = Path(__file__).parents[3] / "docs" / "operations.md"
START_MS: Final = parse_instant("2026-03-01T00:00:00Z")
USER: Final = (
    "<{name}><password>x</password><networks><ip>::/0</ip></networks><profile>default</profile>"
    "<quota>default</quota>{grants}</{name}>"
)
USERS: Final = (
    "<clickhouse><profiles><default/></profiles><quotas><default/></quotas>"
    "<users>{users}</users></clickhouse>"
)


def granted() -> list[str]:
    """What a server says to its user, of the documented statements of ClickHouse."""
    section = DOCS.read_text("utf-8").partition("\nClickHouse, for a database")[2]
    section = section.partition("\nKafka")[0]
    found = re.findall(r"^(GRANT .* ON .*) TO meterline;$", section, re.MULTILINE)
    assert len(found) > 8
    return found


async def test_the_documented_rights_are_enough(tmp_path: Path) -> None:
    grants = "".join(f"<query>{one}</query>" for one in granted())
    users = USER.format(name="default", grants="").replace("<password>x", "<password>")
    users += USER.format(name="meterline", grants=f"<grants>{grants}</grants>")
    (tmp_path / "users.xml").write_text(USERS.format(users=users))
    more = f"<users_config>{tmp_path / 'users.xml'}</users_config>"
    with shards(more=more) as two:
        urls = [url.replace("//", "//meterline:x@") for url in two.urls("meterline")]
        store = await opened(urls)
        try:
            await _use(store)
            settings = Settings(usage_url=urls[0], usage_shards=urls[1:], usage_cluster=CLUSTER)
            found = [one async for one in look_at_clickhouse(settings)]
            assert {one.level for one in found} == {Level.OK}, found
        finally:
            await store.close()


async def _use(store: ClickHouseUsageStore) -> None:
    """Statements of each kind that are sent."""
    holdings, of = ClickHouseHoldings(store.connection), meter(1)
    await ClickHouseHoldings(store.connection.servers[0]).adopt("a")
    await holdings.name_servers("a")
    assert (await holdings.holdings(1, {}, {})).ids == ("a",)
    flush = folded(1, [of], [event(of, 1, "2026-03-01T00:00:00Z", {"v": 1})]).take()
    await store.write(flush)
    assert len(await store.usage(UsageQuery(of))) == 1
    block = Block(block_number(START_MS, 1), 1, (Stretch(0, 0, 10),), 0, 1, 0)
    rows = ClickHouseBlockRows(store.connection)
    await rows.make(block, ())
    await rows.drop([block.number])
    periods = ClickHousePeriods(store.connection)
    for period in await periods.periods():
        await periods.drop(period)
    for server in store.connection.servers:
        await server.execute("ALTER TABLE events ADD COLUMN more UInt8")
    await store.create_tables()  # what is read together is made anew
