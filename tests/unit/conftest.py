"""What holds for every unit test."""

from collections.abc import Iterator

import pytest

from tests.openapi import UNDOCUMENTED


@pytest.fixture(autouse=True)
def only_documented_answers() -> Iterator[None]:
    """No application with the middleware `documented` gave an answer that no document promises."""
    yield
    found, UNDOCUMENTED[:] = [*UNDOCUMENTED], []
    assert not found, "\n".join(found)
