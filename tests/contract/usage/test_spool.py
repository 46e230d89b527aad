"""The contract of `Spool`, over a file and over that of the simulation."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterline.backends.spool import FileSpool
from meterline.report import OpenSpool
from tests.simulation.spool import SimulatedSpool

records = st.lists(st.binary(max_size=40), max_size=12)


@pytest.fixture(
    params=[lambda: FileSpool(memory_bytes=1 << 20), lambda: FileSpool(1), SimulatedSpool],
    ids=["in memory", "in a file", "simulated"],
)
def open_spool(request: pytest.FixtureRequest) -> OpenSpool:
    opened: OpenSpool = request.param
    return opened


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(records, max_size=4), bytes_max=st.integers(1, 100))
async def test_records_are_read_in_order_in_portions(
    open_spool: OpenSpool, written: list[list[bytes]], bytes_max: int
) -> None:
    spool = open_spool()
    for chunk in written:
        await spool.append(chunk)
    portions = [list(it) async for it in spool.portions(bytes_max)]
    await spool.close()
    assert [one for portion in portions for one in portion] == [one for it in written for one in it]
    for portion in portions:
        assert portion
        assert sum(len(one) for one in portion[:-1]) < bytes_max, "all but the last fit"
