"""What an example of a setting needs beside it to be used: other settings, and files that exist."""

from pathlib import Path
from typing import Any, Final

from tests.contract.connections.authority import Authority, replaced

_URLS: Final = {
    "log": {"log_url": "kafka://kafka:9092"},
    "usage": {"usage_url": "https://clickhouse:8443"},
    "control": {"control_url": "postgresql://meterline@postgres/meterline"},
}
_KINDS: Final = frozenset({"tls", "ca_file", "cert_file", "key_file", "password_file"})
_LOGIN: Final = frozenset({"log_sasl", "log_user", "log_password_file"})


def working(name: str, example: object, folder: Path) -> dict[str, Any]:
    """Settings that can be used, of which one is the example, or a file in its place."""
    if name == "inbox_topics":
        return {**_URLS["log"], name: example}
    if name in {"usage_shards", "usage_cluster"}:
        more = {"usage_shards": ["http://clickhouse-2:8123"], "usage_cluster": "meterline"}
        return {"usage_url": "http://clickhouse:8123", **more, name: example}
    if name == "usage_replicas":
        return {"usage_url": "http://clickhouse:8123", name: example}
    if name == "secret_key_file":
        return {name: replaced(folder / "key", "x" * 32)}
    store, _, kind = name.partition("_")
    if store not in _URLS or not (kind in _KINDS or name in _LOGIN or name == "log_token_file"):
        return {name: example}
    given: dict[str, Any] = dict(_URLS[store])
    secret = replaced(folder / "secret", "secret")
    if kind in {"tls", "ca_file", "cert_file", "key_file"} and store != "usage":
        given[f"{store}_tls"] = True
    if name in _LOGIN:
        given |= {"log_sasl": "PLAIN", "log_user": "user", "log_password_file": secret}
    elif name == "log_token_file":
        given["log_sasl"] = "OAUTHBEARER"
    return given | _own(name, kind, example, folder, secret)


def _own(name: str, kind: str, example: object, folder: Path, secret: Path) -> dict[str, Any]:
    authority = Authority(folder, "authority")
    pair = authority.pair("client")
    store = name.partition("_")[0]
    match kind:
        case "ca_file":
            return {name: authority.file}
        case "cert_file" | "key_file":
            return {f"{store}_cert_file": pair.cert, f"{store}_key_file": pair.key}
        case "password_file" | "token_file":
            return {name: secret}
        case _:
            return {name: example}
