"""Run ClickHouse's engine with its HTTP interface, in this process, until it is killed. With a TCP
port other servers can ask it.

    python clickhouse_process.py LIBRARY DATA_FOLDER PORT [CONFIG [TCP_PORT]]

The library's `chdb_query_cmdline` is the program clickhouse-local, which can listen for HTTP. Runs
as a bare script (`python -I`), so it imports nothing of ours.
"""

import ctypes
import sys

# Holds the program open: one block a second, for a day. A query that can be answered without being
# run (`count()`) would return at once and close the listener with it.
HOLD = "SELECT sum(sleepEachRow(1)) FROM numbers(86400) SETTINGS max_block_size=1"
TCP = "SYSTEM START LISTEN TCP; "


def main(library: str, folder: str, port: str, config: str = "", tcp_port: str = "") -> int:
    """Serve; returns only when the engine ends."""
    arguments = [
        "clickhouse",
        f"--path={folder}",
        "--multiquery",
        "--output-format=TabSeparated",  # also HTTP's default format; clients rely on this one
        "--listen_host=127.0.0.1",
        f"--http_port={port}",
        *([f"--config-file={config}"] if config else []),
        *([f"--tcp_port={tcp_port}"] if tcp_port else []),
        f"--query={TCP if tcp_port else ''}SYSTEM START LISTEN HTTP; {HOLD}",
    ]
    raw = [argument.encode() for argument in arguments]
    engine = ctypes.CDLL(library)
    answer: int = engine.chdb_query_cmdline(len(raw), (ctypes.c_char_p * len(raw))(*raw))
    return answer


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
