"""Certificates of every kind, also of the wrong ones: other authorities, times, usages, names and keys."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
ANY = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
DAY_S = 24 * 3600.0


def ecdsa_key() -> PrivateKey:
    """Return a new P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def rsa_key() -> PrivateKey:
    """Return a new RSA key of 2048 bits."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def ed25519_key() -> PrivateKey:
    """Return a new Ed25519 key."""
    return ed25519.Ed25519PrivateKey.generate()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key; *issuer* is None for what signed itself."""

    certificate: x509.Certificate
    key: PrivateKey
    issuer: "Pair | None" = None

    @property
    def der(self) -> bytes:
        """The certificate, DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> bytes:
        """The certificate, PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key, PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def write(self, folder: Path, name: str, *, chain: bytes = b"") -> tuple[Path, Path]:
        """Write NAME.crt (with *chain* after it) and NAME.key into *folder*, atomically, and return their paths."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.pem + chain, self.key_pem), strict=True):
            written = path.with_name(f".{path.name}")
            written.write_bytes(content)
            written.replace(path)
        return paths

    def issue(self, *common_names: str, **changes: object) -> "Pair":
        """Return a client's certificate from this authority; see `make`."""
        return make(*common_names, issuer=self, **{"usages": (CLIENT,), "is_ca": False, **changes})  # type: ignore[arg-type]

    @classmethod
    def authority(cls, name: str = "ca", **changes: object) -> Self:
        """Return an authority that signed itself; see `make`."""
        return make(name, **{"is_ca": True, **changes})  # type: ignore[arg-type, return-value]


def make(  # by keyword
    *common_names: str,
    issuer: Pair | None = None,
    organizations: Sequence[str] = (),
    is_ca: bool | None = None,
    usages: Sequence[x509.ObjectIdentifier] | None = None,
    dns_names: Sequence[str] = (),
    begins_in_s: float = -DAY_S,
    ends_in_s: float = DAY_S,
    now_s: float | None = None,
    new_key: Callable[[], PrivateKey] = ecdsa_key,
) -> Pair:
    """Return a certificate; *is_ca* and *usages* None leave the extension out, *now_s* (Unix seconds) None is now."""
    key = new_key()
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names]
    subject = x509.Name([*(x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations), *names])
    now = dt.datetime.now(dt.UTC) if now_s is None else dt.datetime.fromtimestamp(now_s, dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(seconds=begins_in_s))
        .not_valid_after(now + dt.timedelta(seconds=ends_in_s))
    )
    if is_ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if dns_names:
        alternatives = [x509.DNSName(name) for name in dns_names]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    signing_key = key if issuer is None else issuer.key
    algorithm = None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Pair(builder.sign(signing_key, algorithm), key, issuer)
