"""Certificates for a cluster on loopback: authorities, and what they issue to servers, clients and users."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME_S = 7 * 24 * 3600.0
BACKDATED_S = 300.0
"""Certificates are valid from this long ago, for clocks that are a little off."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes

    @property
    def serial_number(self) -> int:
        """The certificate's serial number, by which two certificates for one name are told apart."""
        return x509.load_pem_x509_certificate(self.certificate_pem).serial_number

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.crt and NAME.key (readable by its owner alone) into *folder* and return their paths.

        Files that are there already are replaced, the key first: a server that reloads both when one changes may read
        a mismatched pair for a moment, as with every renewal of two files.
        """
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        replace_file(key, self.key_pem, mode=0o600)
        replace_file(certificate, self.certificate_pem)
        return certificate, key


class CertificateAuthority:
    """An authority with a key of its own; see `create`.

    Attributes:
        certificate_pem: its certificate, which verifies all that it issues.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, common_name: str, *, lifetime_s: float = LIFETIME_S) -> Self:
        """Return a new authority, its certificate signed by itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = (
            _begin(name, issuer=name, public_key=key.public_key(), lifetime_s=lifetime_s)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    def issue_client(
        self, common_name: str, *, organizations: Sequence[str] = (), lifetime_s: float = LIFETIME_S
    ) -> Credential:
        """Return a client's certificate: Kubernetes takes CN for the user and each O for one of its groups."""
        return self._issue(
            common_name,
            organizations=organizations,
            names=(),
            usages=(ExtendedKeyUsageOID.CLIENT_AUTH,),
            lifetime_s=lifetime_s,
        )

    def issue_server(self, *names: str, lifetime_s: float = LIFETIME_S) -> Credential:
        """Return a server's certificate for DNS names and IP addresses; the first is its CN too.

        The API server asks an aggregated server for `SERVICE.NAMESPACE.svc`.

        Raises: ValueError without any name.
        """
        if not names:
            raise ValueError("a server's certificate needs a name")
        return self._issue(
            names[0],
            organizations=(),
            names=names,
            usages=(ExtendedKeyUsageOID.SERVER_AUTH,),
            lifetime_s=lifetime_s,
        )

    def _issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str],
        names: Sequence[str],
        usages: Sequence[x509.ObjectIdentifier],
        lifetime_s: float,
    ) -> Credential:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        builder = (
            _begin(subject, issuer=self._certificate.subject, public_key=key.public_key(), lifetime_s=lifetime_s)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_parse_name(name) for name in names]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credential(
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM), key_pem=_key_to_pem(key)
        )


def create_signing_key() -> bytes:
    """Return a new private key, PEM, for the tokens of service accounts.

    Of the formats for elliptic keys, the API server takes the public half out of this one alone (SEC 1).
    """
    return _key_to_pem(ec.generate_private_key(ec.SECP256R1()), form=serialization.PrivateFormat.TraditionalOpenSSL)


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write *path* in one step: a reader gets the old content or the new, never a part."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=mode)
    partial.write_bytes(content)
    partial.replace(path)


def _begin(
    subject: x509.Name, *, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, lifetime_s: float
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(seconds=lifetime_s)
    begin = min(now, end) - dt.timedelta(seconds=BACKDATED_S)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _parse_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_to_pem(
    key: ec.EllipticCurvePrivateKey, *, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
