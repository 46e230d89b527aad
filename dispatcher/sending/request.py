"""The headers of a delivery, real or a test: one function, so that a test shows what will be
sent.
"""

from dataclasses import dataclass

from dispatcher.sending.signing import signed_headers
from meterline.delivery import SecretBox, basic_authorization, headers_of


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a report keeps sealed for its deliveries: the secrets that sign, `user:password` of its
    URL, its own headers.
    """

    signing_secrets: tuple[bytes, ...]
    user_info: bytes | None
    headers: bytes | None


def delivery_headers(
    delivery_id: str, body: bytes, sealed: Sealed, box: SecretBox, now_ms: int
) -> dict[str, str]:
    """The headers to send a body with, signed as of now: the report's own, and ours, which prevail.
    Raises `ValueError` where something sealed cannot be opened or read.
    """
    secrets = [box.open(it) for it in sealed.signing_secrets]
    headers = {
        **({} if sealed.headers is None else headers_of(box.open(sealed.headers))),
        "Content-Type": "application/json",
        **signed_headers(delivery_id, secrets, body, now_ms),
    }
    if sealed.user_info is not None:
        headers["Authorization"] = basic_authorization(box.open(sealed.user_info))
    return headers
