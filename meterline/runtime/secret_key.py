"""The key under which secrets of reports are sealed: found, and compared with what is stored."""

from typing import Final, Protocol

from meterline import limits
from meterline.backends.secrets import FernetSecretBox, key_in_file
from meterline.ports import Unsuitable
from meterline.runtime.connections.watched import read_secret
from meterline.runtime.settings.reading import Settings

_HINT: Final = (
    "Restore the old key. If several processes run, give all of them the same secret_key. If the"
    " old key is lost for good: set secret_key_lost to true and start. Rotate the secret of each"
    " report with overlap_seconds 0, and give the new secrets to the receivers. Set URLs with a"
    " password and headers of reports again. Then remove secret_key_lost"
)


class Sealed(Protocol):
    """Where secrets lie that were sealed before."""

    async def sealed_secrets(self, most: int, /) -> list[bytes]:
        """Some of them, the newest first where their order is known. Raises `Unavailable`."""
        ...


async def secret_box(settings: Settings, reports: Sealed) -> FernetSecretBox:
    """Where signing secrets are sealed. Raises `Unsuitable` for a key file that is damaged, or gone
    although it was used, and for a key that opens no secret of the newest reports: after a rotation
    it opens some of them. Raises `Unavailable`.
    """
    sealed = [] if settings.secret_key_lost else await reports.sealed_secrets(limits.SECRETS_TRIED)
    box = _box(settings, may_make=not sealed)
    if sealed and not any(box.opens(it) for it in sealed):
        where = configured(settings) or "the file secret.key"
        message = f"{where} has changed: it cannot decrypt any secret of a report. "
        raise Unsuitable(message + _HINT)
    return box


def configured(settings: Settings) -> str | None:
    """The setting that the key comes from; None where it is the file that the product makes."""
    if settings.secret_key is not None:
        return "secret_key"
    return None if settings.secret_key_file is None else "secret_key_file"


def _box(settings: Settings, *, may_make: bool) -> FernetSecretBox:
    if settings.secret_key is not None:
        return FernetSecretBox(settings.secret_key.get_secret_value())
    if settings.secret_key_file is not None:
        return FernetSecretBox(read_secret(settings.secret_key_file))
    folder = settings.data_dir
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return FernetSecretBox(key_in_file(folder, may_make=may_make))
    except ValueError as error:
        raise Unsuitable(str(error) if may_make else f"{error}. {_HINT}") from error
