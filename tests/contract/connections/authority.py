"""Certificates for one test: an authority of its own, and what it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AGE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Files in PEM: a certificate, its key, and both in one."""

    cert: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates; its own is in `file`. All files are readable for everybody: servers may
    run as another user.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        own = _builder(self._name, self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = own.sign(self._key, hashes.SHA256())
        self.file = replaced(folder / f"{name}.pem", _pem(self._certificate))

    def pair(self, name: str, folder: Path | None = None) -> Pair:
        """A certificate for `name`, good for a server on this machine and for a client. Where the
        files are there already they are replaced.
        """
        folder = folder or self._folder
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        certificate = (
            _builder(_named(name), self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        shown, hidden = _pem(certificate), _pem_of_key(key)
        return Pair(
            replaced(folder / f"{name}-cert.pem", shown),
            replaced(folder / f"{name}-key.pem", hidden),
            replaced(folder / f"{name}-both.pem", hidden + shown),
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - AGE)
        .not_valid_after(now + AGE)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def replaced(path: Path, content: bytes | str) -> Path:
    """Write a file as programs that renew certificates do it: one beside it takes its name."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content.encode() if isinstance(content, str) else content)
    beside.chmod(0o644)
    return beside.replace(path)
