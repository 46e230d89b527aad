"""What connections to Kafka are made with, as aiokafka takes it."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiokafka.abc import AbstractTokenProvider


class KafkaSecurity(Mapping[str, Any]):
    """aiokafka's own arguments; a password is read from its file when it is taken from here.

    So whoever makes a client spreads it (`**security`), and a client that lives on is given the
    password again (`meterline.backends.kafka.topic.renew_password`).
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        mechanism: str | None = None,
        user: str | None = None,
        secret: Callable[[], str] | None = None,
    ) -> None:
        """`secret` gives the password, or the token of OAUTHBEARER."""
        kind = "SASL_" if mechanism else ""
        self._fixed: dict[str, Any] = {
            "security_protocol": kind + ("PLAINTEXT" if tls is None else "SSL")
        }
        self._fresh: dict[str, Callable[[], str]] = {}
        if tls is not None:
            self._fixed["ssl_context"] = tls
        if mechanism is None:
            return
        assert secret is not None, "the settings have checked it"
        self._fixed["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            self._fixed["sasl_oauth_token_provider"] = _Tokens(secret)
        else:
            self._fixed["sasl_plain_username"] = user
            self._fresh["sasl_plain_password"] = secret

    def __getitem__(self, name: str) -> Any:
        """An argument, as it is now."""
        return self._fresh[name]() if name in self._fresh else self._fixed[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the arguments."""
        return iter([*self._fixed, *self._fresh])

    def __len__(self) -> int:
        """How many arguments there are."""
        return len(self._fixed) + len(self._fresh)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Asked for each connection."""

    def __init__(self, secret: Callable[[], str]) -> None:
        self._secret = secret

    async def token(self) -> str:
        """The token, as its file has it."""
        return self._secret()
