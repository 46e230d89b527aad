"""The tree of the image, built once."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image import Image, build
from tests.scratch import memory_folder


@pytest.fixture(scope="package")
def image() -> Iterator[Image]:
    """Built by the commands of the Dockerfile."""
    with tempfile.TemporaryDirectory(prefix="image-", dir=memory_folder()) as folder:
        Path(folder).chmod(0o755)  # its user goes through it
        yield build(Path(folder))
