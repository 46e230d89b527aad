"""Signatures: the known vector, both families, rotation, and what receivers' libraries say to
them.
"""

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook as StandardWebhook
from svix.webhooks import Webhook, WebhookVerificationError

from dispatcher.sending.signing import signed_headers

# The known vector of Svix and Standard Webhooks.
SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = b'{"test": 2432232314}'
VECTOR = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

keys = st.binary(min_size=24, max_size=64).map(lambda k: f"whsec_{base64.b64encode(k).decode()}")


@pytest.mark.parametrize("secret", [SECRET, f"whsec_{SECRET}"])
def test_the_known_vector(secret: str) -> None:
    headers = signed_headers(ID, [secret], BODY, 1_614_265_330_999)
    assert headers == {
        "svix-id": ID,
        "svix-timestamp": "1614265330",
        "svix-signature": VECTOR,
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": VECTOR,
    }


@given(keys, st.text())
def test_what_is_signed_verifies_with_both_libraries(secret: str, body: str) -> None:
    headers = signed_headers("dlv_x", [secret], body.encode(), time.time_ns() // 1_000_000)
    Webhook(secret).verify(body.encode(), headers)
    StandardWebhook(secret).verify(body.encode(), headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body.encode() + b" ", headers)


def test_during_a_rotation_either_secret_verifies() -> None:
    secrets = ["whsec_" + base64.b64encode(bytes([n]) * 24).decode() for n in range(3)]
    headers = signed_headers("dlv_x", secrets[:2], BODY, time.time_ns() // 1_000_000)
    for secret in secrets[:2]:
        Webhook(secret).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secrets[2]).verify(BODY, headers)


def test_a_body_that_is_no_text_is_our_fault() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        signed_headers("dlv_x", [SECRET], b"\xff", 0)
