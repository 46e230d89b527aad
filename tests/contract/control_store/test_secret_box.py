"""What every SecretBox promises, and how its key is kept in a folder."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meterline.backends.secrets import KEY_FILE, FernetSecretBox, key_in_file
from meterline.delivery import SecretBox


@pytest.fixture
def box() -> SecretBox:
    return FernetSecretBox("a key of some length")


@pytest.mark.parametrize("plain", ["", "whsec_abc", "user:pass wörd"])
def test_what_is_sealed_opens_again_and_hides(box: SecretBox, plain: str) -> None:
    sealed = box.seal(plain)
    assert box.open(sealed) == plain
    assert not plain or plain.encode() not in sealed
    assert box.seal(plain) != sealed


def test_another_key_and_a_changed_byte_are_refused(box: SecretBox) -> None:
    sealed = box.seal("whsec_abc")
    with pytest.raises(ValueError, match="secret_key"):
        FernetSecretBox("another key").open(sealed)
    with pytest.raises(ValueError, match="sealed"):
        box.open(sealed[:-3] + b"abc")


def test_the_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: key_in_file(folder), range(16)))
    assert keys == {key_in_file(folder)}
    assert len(keys.pop()) >= 40
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600


def test_an_empty_key_file_is_told(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("\n")
    with pytest.raises(ValueError, match="is damaged"):
        key_in_file(tmp_path)
