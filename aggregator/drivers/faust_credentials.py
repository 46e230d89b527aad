"""What Faust's clients of Kafka are made with."""

from collections.abc import Mapping
from typing import Any

import faust
from faust.auth import Credentials, OAuthCredentials


def credentials(security: Mapping[str, Any]) -> Credentials | None:
    """Faust's own form of aiokafka's arguments; None where there is nothing to show."""
    tls, mechanism = security.get("ssl_context"), security.get("sasl_mechanism")
    if mechanism is None:
        return None if tls is None else faust.SSLCredentials(tls)
    if mechanism == "OAUTHBEARER":
        tokens = security["sasl_oauth_token_provider"]
        return OAuthCredentials(oauth_cb=tokens, ssl_context=tls)
    return faust.SASLCredentials(
        username=security["sasl_plain_username"],
        password=security["sasl_plain_password"],
        ssl_context=tls,
        mechanism=mechanism,
    )
