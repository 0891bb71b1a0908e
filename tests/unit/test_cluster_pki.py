"""Certificates of the cluster's authorities say who someone is, and to whom."""

import datetime as dt
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from loadgen.cluster.pki import CertificateAuthority, Credential, create_signing_key


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    """An authority."""
    return CertificateAuthority.create("test-ca")


def load(pem: bytes) -> x509.Certificate:
    """Return the certificate in *pem*."""
    return x509.load_pem_x509_certificate(pem)


def build_policy(authority: CertificateAuthority) -> PolicyBuilder:
    """Return a verification that trusts *authority* alone."""
    return PolicyBuilder().store(Store([load(authority.certificate_pem)]))


def test_client_certificate_verifies_and_names_user_and_groups(authority: CertificateAuthority) -> None:
    """CN is the user, every O a group, and the usage is a client's alone."""
    certificate = load(authority.issue_client("alice", organizations=("team-a", "team-b")).certificate_pem)
    certificate.verify_directly_issued_by(load(authority.certificate_pem))
    names = [(attribute.oid, attribute.value) for attribute in certificate.subject]
    assert names == [
        (NameOID.ORGANIZATION_NAME, "team-a"),
        (NameOID.ORGANIZATION_NAME, "team-b"),
        (NameOID.COMMON_NAME, "alice"),
    ]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_server_certificate_verifies_for_its_names_alone(authority: CertificateAuthority) -> None:
    """A server is believed for the names and addresses that it was issued for, and for no other."""
    certificate = load(authority.issue_server("adapter.monitoring.svc", "127.0.0.1").certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    policy = build_policy(authority)
    policy.build_server_verifier(x509.DNSName("adapter.monitoring.svc")).verify(certificate, [])
    with pytest.raises(VerificationError):
        policy.build_server_verifier(x509.DNSName("other.monitoring.svc")).verify(certificate, [])


def test_certificate_of_another_authority_of_the_same_name_is_refused(authority: CertificateAuthority) -> None:
    """A rotated authority keeps its name; its key decides."""
    certificate = load(CertificateAuthority.create("test-ca").issue_server("a.b.svc").certificate_pem)
    with pytest.raises(VerificationError):
        build_policy(authority).build_server_verifier(x509.DNSName("a.b.svc")).verify(certificate, [])


@pytest.mark.parametrize(
    ("lifetime_s", "is_valid"), [pytest.param(60.0, True, id="valid"), pytest.param(-60.0, False, id="expired")]
)
def test_lifetime_ends_when_asked(authority: CertificateAuthority, lifetime_s: float, *, is_valid: bool) -> None:
    """A certificate that has expired already can be had, to see it refused."""
    certificate = load(authority.issue_client("alice", lifetime_s=lifetime_s).certificate_pem)
    now = dt.datetime.now(dt.UTC)
    assert (certificate.not_valid_before_utc < now < certificate.not_valid_after_utc) is is_valid


def test_server_certificate_without_a_name_is_refused(authority: CertificateAuthority) -> None:
    """A certificate that no client would accept is not issued."""
    with pytest.raises(ValueError, match="needs a name"):
        authority.issue_server()


def test_two_certificates_for_one_name_differ_in_serial_number(authority: CertificateAuthority) -> None:
    """A renewed certificate can be told from the one before."""
    assert authority.issue_client("alice").serial_number != authority.issue_client("alice").serial_number


def test_written_key_is_for_its_owner_alone_also_when_replaced(authority: CertificateAuthority, tmp_path: Path) -> None:
    """Keys are never readable by others, and a second write leaves the new pair and nothing else."""
    authority.issue_client("alice").write(tmp_path, "alice")
    renewed = authority.issue_client("alice")
    certificate, key = renewed.write(tmp_path, "alice")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert Credential(certificate.read_bytes(), key.read_bytes()) == renewed
    assert {path.name for path in tmp_path.iterdir()} == {"alice.crt", "alice.key"}


def test_signing_key_is_in_the_form_that_the_api_server_reads() -> None:
    """In PKCS #8 the API server finds no public half and does not start (tried with 1.36)."""
    pem = create_signing_key()
    assert pem.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert isinstance(serialization.load_pem_private_key(pem, password=None), ec.EllipticCurvePrivateKey)
