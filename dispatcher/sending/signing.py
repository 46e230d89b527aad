"""Signatures of deliveries by the svix library (contract section 5, rule 5; Standard Webhooks
v1).
"""

import importlib
from collections.abc import Sequence
from datetime import UTC, datetime


def load() -> None:
    """Import the library, which takes 0.3 s: a shell does so in a thread before the first
    delivery.
    """
    importlib.import_module("svix.webhooks")


def signed_headers(
    delivery_id: str, secrets: Sequence[str], body: bytes, now_ms: int
) -> dict[str, str]:
    """The headers that prove a body at an instant, in both families, with equal values.

    Receivers on the svix library and on Standard Webhooks both find theirs. `secrets` are
    `whsec_...`, the current one first; each gives one signature (rotation). The instant is that
    of the attempt, for receivers accept five minutes only. Raises `ValueError` for a body that
    is not UTF-8.
    """
    # Imported when first used: the package takes 0.3 s, which every command would pay.
    from svix.webhooks import Webhook  # noqa: PLC0415

    assert "." not in delivery_id, "the signature is made over id.timestamp.body"
    # As text and in UTC: the library signs the repr of bytes, and relabels other zones without
    # converting.
    text = body.decode()
    moment = datetime.fromtimestamp(now_ms // 1000, UTC)
    signature = " ".join(Webhook(secret).sign(delivery_id, moment, text) for secret in secrets)
    values = {"id": delivery_id, "timestamp": str(now_ms // 1000), "signature": signature}
    return {
        f"{family}-{name}": value
        for family in ("svix", "webhook")
        for name, value in values.items()
    }
