"""Settings of connections that cannot be used are refused by their name, with what to do."""

from pathlib import Path
from typing import Any, Final

import pytest

from meterline.backends.secrets import FernetSecretBox
from meterline.runtime.secret_key import _box
from meterline.runtime.settings.reading import Settings, SettingsError, load_settings
from tests.contract.connections.authority import Authority, Pair, replaced

KAFKA: dict[str, Any] = {"log_url": "kafka://kafka:9092"}
POSTGRES: dict[str, Any] = {"control_url": "postgresql://meterline@postgres:5432/meterline"}
CERT: Final = "a certificate that is there"
SERVER: dict[str, Any] = {"usage_url": "http://a/db"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def authority(folder: Path) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture
def client(authority: Authority) -> Pair:
    return authority.pair("client")


def refusal(**given: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ({"log_tls": True}, "log_tls", "needs a server: set log_url to kafka://host:port"),
        ({"control_tls": True}, "control_tls", "set control_url to postgresql://"),
        ({"log_sasl": "PLAIN"}, "log_sasl", "needs Kafka: set log_url"),
        ({**KAFKA, "log_ca_file": "ca.pem"}, "log_ca_file", "only used with log_tls = true"),
        (
            {"usage_ca_file": "ca.pem"},
            "usage_ca_file",
            "only used with an https:// URL in usage_url",
        ),
        ({**POSTGRES, "control_cert_file": "c"}, "control_cert_file", "with control_tls = true"),
        ({**KAFKA, "log_tls": True, "log_ca_file": "none.pem"}, "log_ca_file", "no such file"),
        ({**KAFKA, "log_sasl": "PLAIN"}, "log_user", "log_sasl = PLAIN needs it"),
        ({**KAFKA, "log_sasl": "PLAIN"}, "log_password_file", "log_sasl = PLAIN needs it"),
        ({**KAFKA, "log_sasl": "OAUTHBEARER"}, "log_token_file", "OAUTHBEARER needs it"),
        ({**KAFKA, "log_user": "u"}, "log_user", "remove it, or set log_sasl"),
        ({**KAFKA, "log_token_file": "t"}, "log_token_file", "log_sasl = OAUTHBEARER"),
        ({"usage_password_file": "p"}, "usage_password_file", "set usage_url to its URL"),
        (
            {**POSTGRES, "control_password_file": "p"},
            "control_password_file",
            "names no file that is",
        ),
        ({"usage_shards": ["http://b:1"]}, "usage_shards", "set usage_url to the first one"),
        ({**SERVER, "usage_shards": ["http://b:1/db"]}, "usage_cluster", "set both, or remove"),
        ({**SERVER, "usage_cluster": "c"}, "usage_cluster", "goes with usage_shards: set both"),
        ({**SERVER, "usage_shards": ["http://b/x"]}, "usage_shards", "the database of usage_url"),
        ({**SERVER, "usage_shards": ["https://b/db"]}, "usage_shards", "must have the scheme"),
        ({**SERVER, "usage_shards": ["http://a/db"]}, "usage_shards", "or that of usage_url"),
        ({"usage_replicas": ["http://b:1"]}, "usage_replicas", "set usage_url to the first one"),
        ({**SERVER, "usage_replicas": ["http://a/db"]}, "usage_replicas", "or that of usage_url"),
        (
            {**SERVER, "usage_shards": ["http://b/db"], "usage_cluster": "c"}
            | {"usage_replicas": ["http://c/db"]},
            "usage_replicas",
            "does not go with usage_shards",
        ),
        ({"log_timeout_s": 0}, "log_timeout_s", "greater than or equal to 1"),
        ({"usage_timeout_s": 3}, "usage_timeout_s", "greater than or equal to 30"),
    ],
)
def test_a_setting_that_does_not_go_with_the_others(
    folder: Path, given: dict[str, Any], name: str, why: str
) -> None:
    assert folder.is_dir()
    told = [line for line in refusal(**given).splitlines() if line.startswith(f"- {name} (")]
    assert len(told) == 1, refusal(**given)
    assert why in told[0]


def test_files_must_hold_what_they_are_for(
    folder: Path, authority: Authority, client: Pair
) -> None:
    tls: dict[str, Any] = {**KAFKA, "log_tls": True}
    text = replaced(folder / "text.pem", "no certificate")
    told = refusal(**tls, log_ca_file=text)
    assert "log_ca_file (" in told
    assert "has no certificate in PEM" in told
    other = authority.pair("other")
    told = refusal(**tls, log_cert_file=client.cert, log_key_file=other.key)
    assert "log_key_file (" in told
    assert "does not give the private key of log_cert_file (KEY_VALUES_MISMATCH)" in told
    told = refusal(**tls, log_cert_file=client.cert)
    assert "log_key_file (" in told
    told = refusal(**tls, log_key_file=client.key)
    assert "is the key of log_cert_file: set that too" in told
    both = Settings(**tls, log_ca_file=authority.file, log_cert_file=client.both)
    assert both.log_key_file is None


def test_a_password_is_in_one_place(folder: Path) -> None:
    path = replaced(folder / "password", "secret")
    told = refusal(
        control_url="postgresql://meterline:hidden@postgres/meterline", control_password_file=path
    )
    assert "control_url has a password too: remove it there" in told
    assert "hidden" not in told
    given = Settings(**POSTGRES, control_password_file=path)
    assert given.control_password_file == path


@pytest.mark.parametrize(
    "secret",
    [
        *("hunter2", "/hunter2", "//hunter2", "../hunter2", "hunter2/8Q==", "/etc/../hunter2"),
        *("hunter2\nhunter2", f"/{'hunter2' * 1_000}", "hunter2\0"),
        *(f"-----BEGIN PRIVATE KEY-----\n{'hunter2' * times}" for times in (1, 1_000)),
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        {**POSTGRES, "control_password_file": ""},
        {**KAFKA, "log_sasl": "PLAIN", "log_user": "u", "log_password_file": ""},
        {**KAFKA, "log_sasl": "OAUTHBEARER", "log_token_file": ""},
        {**KAFKA, "log_tls": True, "log_cert_file": CERT, "log_key_file": ""},
        {**KAFKA, "log_token_file": ""},  # nothing uses it
        {"secret_key_file": ""},
    ],
)
def test_a_secret_in_the_place_of_its_file_is_not_shown(
    client: Pair, secret: str, given: dict[str, object]
) -> None:
    there = {CERT: client.cert, "": secret}
    told = refusal(**{name: there.get(str(value), value) for name, value in given.items()})
    (name,) = (name for name, value in given.items() if value == "")
    assert f"{name} (variable" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("name", ["log_cert_file", "log_ca_file"])
@pytest.mark.parametrize("times", [1, 1_000])
def test_a_key_in_the_place_of_a_certificate_is_not_shown(name: str, times: int) -> None:
    secret = f"-----BEGIN PRIVATE KEY-----\n{'hunter2' * times}"
    told = refusal(**KAFKA, log_tls=True, **{name: secret})
    assert f"{name} (variable" in told
    assert "hunter2" not in told


def test_a_file_that_may_not_be_read_is_not_missing(folder: Path) -> None:
    told = refusal(**POSTGRES, control_password_file=folder)
    assert f"{folder} cannot be read: Is a directory" in told


def test_a_path_of_a_missing_secret_is_shown(folder: Path) -> None:
    path = folder / "password"
    told = refusal(**POSTGRES, control_password_file=path)
    assert f"{path} cannot be read: No such file or directory" in told


def test_tls_of_postgresql_is_said_once(folder: Path) -> None:
    assert folder.is_dir()
    url = f"{POSTGRES['control_url']}?sslmode=require"
    assert "control_url has sslmode: remove that, or control_tls" in refusal(
        control_url=url, control_tls=True
    )


def test_the_key_of_secrets_may_be_in_a_file(folder: Path) -> None:
    path = replaced(folder / "key", f"{'x' * 32}\n")
    given = load_settings(None, {"secret_key_file": path})
    assert FernetSecretBox("x" * 32).opens(_box(given, may_make=False).seal("secret"))
    told = refusal(secret_key_file=path, secret_key="y" * 32)
    assert "secret_key_file (" in told
    assert "secret_key is set too: remove one of them" in told
    assert "must be random text of at least 32" in refusal(secret_key_file=replaced(path, "short"))
