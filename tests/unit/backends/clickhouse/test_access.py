"""How a server is reached takes no more memory than it needs."""

import subprocess
import sys

_INSERTS = """
import sys
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.insert import InsertContext
from meterline.backends.clickhouse.clients.access import connected

types = [get_from_name("UInt64"), get_from_name("Decimal(76, 9)"), get_from_name("DateTime64(3)")]
context = InsertContext("rows", ["a", "b", "c"], types, data=[[1, 2, 3], [4, 5, 6]])
assert context.row_count == 2 and connected is not None
print(*sys.modules, sep="\\n")
"""


def test_an_insert_imports_nothing_for_tables_of_other_libraries() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _INSERTS], capture_output=True, text=True, check=True
    )
    assert {"pandas", "pyarrow", "numpy", "polars"}.isdisjoint(ran.stdout.split())
