"""The simulated seen store answers as RocksDB does."""

from pathlib import Path
from random import Random

import pytest

from meterline.backends.rocksdb import RocksSeenStore
from meterline.usage import SeenRow
from tests.simulation.network import CalmNet
from tests.simulation.raw import in_order
from tests.simulation.stores import SimulatedSeen, Volume

HORIZON_MS = 1_000


@pytest.mark.parametrize("seed", range(5))
def test_both_give_the_same_verdicts(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    real = RocksSeenStore(tmp_path, HORIZON_MS)
    simulated = SimulatedSeen(Volume(), CalmNet(), lambda _: None)
    keys = [bytes([n]) * 16 for n in range(20)]
    append_ms = offset = 0
    for _ in range(60):
        append_ms += rng.randrange(300)
        rows = [
            SeenRow(1, 0, offset + n, 0, offset, append_ms, rng.choice(keys), rng.randbytes(8))
            for n in range(rng.randrange(4))
        ]
        offset += rng.randrange(1, 6)
        for store in (real, simulated):
            store.apply(in_order(rows), offset)
        assert real.applied == simulated.applied
        for one, other in zip(real.get_many(keys), simulated.get_many(keys), strict=True):
            within = other is not None and append_ms - other[1] <= HORIZON_MS
            assert one == other or (one is None and not within), "older ones may be gone"
    real.close()
