"""Chromium, for tests that look at pages as people do."""

import fcntl
import shutil
import subprocess
from typing import Final

from tests.services.fetch import CACHE

APT_WITHIN_S: Final = 600
ARGUMENTS: Final = ("--no-sandbox", "--disable-background-networking")
NEEDED: Final = (
    "tests that look at pages need Chromium. Debian and Ubuntu: apt install chromium; as root "
    "they install it themselves"
)


def installed() -> str:
    """The path of Chromium, installed by apt where we may and it is missing."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt takes no two at once
        return _installed()


def _installed() -> str:
    found = shutil.which("chromium")
    if found is None:
        apt = shutil.which("apt-get")
        assert apt is not None, NEEDED
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run([apt, "-qq", *command], check=True, timeout=APT_WITHIN_S)
        found = shutil.which("chromium")
    assert found is not None, NEEDED
    return found
