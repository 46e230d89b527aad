"""Passwords and certificates in files that are replaced while they are in use."""

import ssl
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from meterline.runtime.connections.kafka import KafkaSecurity
from meterline.runtime.connections.tls import FreshContext, TlsFiles
from meterline.runtime.connections.watched import SecretFile
from tests.contract.connections.authority import Authority, replaced


def test_a_secret_is_read_again_when_its_file_is_replaced(tmp_path: Path) -> None:
    path = replaced(tmp_path / "password", "first\n")
    secret = SecretFile(path)
    assert secret() == "first"
    replaced(path, "  second  \nwhat follows is not of it\n")
    assert secret() == "second"


def test_while_it_cannot_be_read_the_last_one_is_used_and_that_is_told_once(
    tmp_path: Path,
) -> None:
    path = replaced(tmp_path / "password", "first")
    secret = SecretFile(path)
    path.unlink()
    with capture_logs() as lines:
        assert [secret(), secret()] == ["first", "first"]
        replaced(path, "\n")  # half of it is written
        assert secret() == "first"
        replaced(path, "second")
        assert secret() == "second"
        path.unlink()
        assert secret() == "second"
    assert [line["event"] for line in lines] == ["secret_file", "secret_file"]


@pytest.mark.parametrize(
    ("content", "why"), [(None, "cannot be read"), (b"", "is empty"), (b"\xff\xfe", "is not text")]
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        SecretFile(path)


def test_arguments_of_kafka_have_the_password_as_it_is_now(tmp_path: Path) -> None:
    path = replaced(tmp_path / "password", "first")
    security = KafkaSecurity(None, "SCRAM-SHA-512", "user", SecretFile(path))
    expected = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "user",
        "sasl_plain_password": "first",
    }
    assert dict(security) == expected
    assert len(security) == len(expected)
    replaced(path, "second")
    assert dict(**security)["sasl_plain_password"] == "second"
    assert dict(KafkaSecurity()) == {"security_protocol": "PLAINTEXT"}


def serial(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Shake hands in memory; the number of the certificate that the client showed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    done = 0
    while done < 2:
        done = 0
        for one in (here, there):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
            done += 1
    shown = there.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_certificates_are_read_again_once_both_files_fit(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    server.verify_mode = ssl.CERT_REQUIRED
    theirs = authority.pair("server")
    server.load_cert_chain(theirs.cert, theirs.key)
    mine, later = authority.pair("first"), authority.pair("second")
    client = FreshContext(TlsFiles(authority.file, mine.cert, mine.key))
    first = serial(server, client)
    assert serial(server, client) == first
    replaced(mine.key, later.key.read_bytes())
    with capture_logs() as lines:
        assert serial(server, client) == first
    assert [line["event"] for line in lines] == ["certificates_wait"]
    replaced(mine.cert, later.cert.read_bytes())
    assert serial(server, client) != first
