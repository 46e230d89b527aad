"""ClickHouse as a local process: the engine's library with its HTTP interface switched on."""

import sys
from functools import partial
from pathlib import Path

from tests.services.fetch import Say, clickhouse_engine
from tests.services.local import LocalService, data_folder, free_port
from tests.services.ready import clickhouse_problem


def local_clickhouse(
    say: Say, config: Path | None = None, tcp_port: int | None = None
) -> LocalService:
    """Return a server that is ready to start, on a free port with an empty data folder. `config` is
    a file of its settings, such as one that names users. Other servers ask it at `tcp_port`.
    """
    library = clickhouse_engine(say)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with data_folder("clickhouse") as folder:
        (folder / "data").mkdir()
    program = Path(__file__).with_name("clickhouse_process.py")
    return LocalService(
        name="ClickHouse",
        url=url,
        folder=folder,
        command=[
            *(sys.executable, "-I", str(program)),
            *(str(library), str(folder / "data"), str(port)),
            *([] if config is None else [str(config)]),
            *([] if tcp_port is None else [str(tcp_port)]),
        ],
        problem=partial(clickhouse_problem, url),
    )
