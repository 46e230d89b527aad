"""The release before goes on with a folder that this build has migrated: so one can go back.

`python -m tests.upgrade.back` does it more often, and on servers, where both run beside each other.
"""

from pathlib import Path

from tests.journey.receiver import Receiver
from tests.upgrade.back import go_back
from tests.upgrade.build import builds, unpack_build

(*_, NEWEST) = builds()


def test_one_process_goes_back(tmp_path: Path, receiver: Receiver) -> None:
    before = unpack_build(NEWEST, tmp_path / "build")
    go_back(NEWEST, before, tmp_path / "embedded", receiver, (False, True))
