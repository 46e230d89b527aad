"""The image of deploy/Dockerfile without a container engine: its tree, built by its commands, and
its processes, run as its user on a read-only root. The base image is this machine.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services.service import ServiceError

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = ROOT / "deploy/Dockerfile"
IGNORED: Final = ROOT / "deploy/Dockerfile.dockerignore"
USER: Final = 10_001
WITHIN_S: Final = 300.0
_PYTHON: Final = Path(sys.base_prefix)
_ENTER: Final = Path(__file__).with_name("enter.sh")
_TOOLS: Final = "tools"  # uv, and this machine's Python under the name that the base image has
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile with what they are given, on one line."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in re.sub(r"\\\n *", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


@dataclass(frozen=True, slots=True)
class Image:
    """A root with the tree of the image."""

    root: Path
    environment: Mapping[str, str]
    health: Sequence[str]

    def command(
        self, arguments: Sequence[str], volume: str | None = None, given: Container[str] = ()
    ) -> list[str]:
        """A command as the image runs it, without its entry point.

        `volume` is the folder at /data; if empty, the one that METERLINE_DATA_DIR names when
        it runs. Variables that are `given` then are not those of the image.
        """
        drop = "setpriv" if os.geteuid() == 0 else "mapped"
        variables = [f"{k}={v}" for k, v in self.environment.items() if k not in given]
        folder = str(self.root / "data") if volume is None else volume
        return [*_entered(self.root, drop, folder, "/data"), "env", *variables, *arguments]

    def run(
        self, arguments: Sequence[str], more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with more variables."""
        return subprocess.run(
            self.command(["env", *(f"{k}={v}" for k, v in (more or {}).items()), *arguments]),
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
            stdin=subprocess.DEVNULL,
        )

    def give(self, place: Path) -> None:
        """Let its user write to a folder, as the owner of a volume."""
        if os.geteuid() == 0:
            os.chown(place, USER, USER)

    def is_its_user(self, pid: int) -> bool:
        """Whether a process runs as the image's user, who else is whoever started it."""
        user = USER if os.geteuid() == 0 else os.geteuid()
        return Path(f"/proc/{pid}").stat().st_uid == user


def build(root: Path) -> Image:
    """Build the tree in an empty folder. Raises `ServiceError` with the words of what failed."""
    _lay_out(root)
    stages: list[list[tuple[str, str]]] = []
    for one in instructions(DOCKERFILE.read_text()):
        if one[0] == "FROM":
            stages.append([])
        elif stages:
            stages[-1].append(one)
    first, last = stages
    for name, given in first:
        if name == "COPY":
            _copy(root, given)
        elif name == "RUN":
            _run(root, given)
    environment: dict[str, str] = {}
    for given in (given for name, given in last if name == "ENV"):
        environment |= dict(pair.split("=", 1) for pair in given.split())
    environment["PATH"] = environment["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    (health,) = (given for name, given in last if name == "HEALTHCHECK")
    return Image(root, environment, json.loads(health.partition(" CMD ")[2]))


def _lay_out(root: Path) -> None:
    """What the base image has, empty: this machine's own is mounted there."""
    for name in ("usr", "etc", "proc", "dev", "tmp", "src", "opt", "data", _TOOLS):
        (root / name).mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    (root / str(_PYTHON).lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / _TOOLS / "python").symlink_to(_PYTHON / "bin" / _VERSION)
    shutil.copy2(Path(sys.executable).with_name("uv"), root / _TOOLS / "uv")
    # uv is there, in the version of the Dockerfile (tests/unit/test_deploy.py)
    (root / _TOOLS / "pip").write_text("#!/bin/sh\nexit 0\n")
    (root / _TOOLS / "pip").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(root / "data", USER, USER)


def _copy(root: Path, given: str) -> None:
    *names, target = given.split()
    admitted = IGNORED.read_text().split()
    for name in names:
        assert f"!{name}" in admitted, f"{name} is not sent to the engine: {IGNORED.name}"
        source, place = ROOT / name, root / "src" / target
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, place, ignore=ignored, copy_function=shutil.copy)
        else:
            shutil.copy(source, place)  # its times are of this build, as those of a new checkout


def _run(root: Path, command: str) -> None:
    cache = Path(os.environ.get("UV_CACHE_DIR", Path.home() / ".cache" / "uv"))
    cache.mkdir(parents=True, exist_ok=True)
    (root / str(cache).lstrip("/")).mkdir(parents=True, exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP", "UV"))},
        "PATH": f"/{_TOOLS}:/usr/bin:/bin",
        "UV_CACHE_DIR": str(cache),
        "UV_LINK_MODE": "copy",
    }
    # `make install` has fetched it all: what the Dockerfile says of caches is for an engine.
    kept = command.replace(" --no-cache ", " ")
    exported = "".join(f"export {name}='{value}'; " for name, value in environment.items())
    done = subprocess.run(
        [*_entered(root, "build", str(cache), str(cache)), exported + kept],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        words = f"RUN {command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
        raise ServiceError(words)


def _entered(root: Path, drop: str, volume: str, place: str) -> list[str]:
    unshare = shutil.which("unshare")
    if unshare is None:
        raise ServiceError("there is no `unshare` on the path: install util-linux")
    own = [unshare, "--mount"]
    if os.geteuid() != 0:
        user = [f"--map-user={USER}", f"--map-group={USER}", "--keep-caps"]
        own = [unshare, "--user", *(user if drop == "mapped" else ["--map-root-user"]), "--mount"]
    entered = ["/bin/sh", str(_ENTER), drop, str(root), volume, place]
    return [*own, "env", f"ENTER_PYTHON={_PYTHON}", *entered]
