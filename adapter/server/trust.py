"""Client certificates, verified against the one CA that they claim.

The TLS handshake trusts both CAs of the cluster, so it proves too little: a user's certificate must not pass for the
front proxy's. Here each chain is verified once more, against one bundle alone.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from adapter.clock import Clock

_CACHE_LIMIT = 4096
_REFUSAL_STANDS_S = 10.0
_APPROVAL_STANDS_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Judgement:
    certificate: x509.Certificate | None
    stands_until_s: float


class ClientCa:
    """One bundle of CAs for client certificates; *pem* may be empty, and then verifies nobody.

    Raises ValueError where *pem* holds something that is not a certificate.
    """

    def __init__(self, pem: bytes, clock: Clock) -> None:
        self._clock = clock
        self._roots = x509.load_pem_x509_certificates(pem) if pem.strip() else []
        self._judged: dict[tuple[bytes, ...], _Judgement] = {}

    def verify(self, chain: tuple[bytes, ...]) -> x509.Certificate | None:
        """Return the client's certificate if this CA issued it for clients and all is valid now, else None.

        *chain* is what the client has sent, DER, its own certificate first. A certificate without extended key usage
        may be used for anything. Stricter than Go: CAs of X.509 version 1, and with Ed25519 keys, verify nobody.

        Source: k8s.io/apiserver pkg/authentication/request/x509, with its usage clientAuth.
        """
        now_s = self._clock.now_s()
        judgement = self._judged.get(chain)
        if judgement is None or judgement.stands_until_s <= now_s:
            if len(self._judged) >= _CACHE_LIMIT:
                self._judged.clear()
            judgement = self._judged[chain] = self._judge(chain, now_s)
        return judgement.certificate

    def _judge(self, chain: tuple[bytes, ...], now_s: float) -> _Judgement:
        refused = _Judgement(None, now_s + _REFUSAL_STANDS_S)
        if not self._roots:
            return refused
        verifier = (
            PolicyBuilder()
            .store(Store(self._roots))
            .time(datetime.fromtimestamp(now_s, UTC))
            .extension_policies(ca_policy=_CA_POLICY, ee_policy=_LEAF_POLICY)
            .build_client_verifier()
        )
        try:
            own, *others = (x509.load_der_x509_certificate(der) for der in chain)
            verified = verifier.verify(own, others).chain
        except (VerificationError, ValueError):
            return refused
        ends_s = min(certificate.not_valid_after_utc.timestamp() for certificate in verified)
        return _Judgement(verified[0], min(ends_s, now_s + _APPROVAL_STANDS_S))


def find_common_name(certificate: x509.Certificate) -> str:
    """Return the subject's common name, empty if it has none; of several the last, as in Go's crypto/x509."""
    return next(reversed(_find_all(certificate, NameOID.COMMON_NAME)), "")


def find_organizations(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the subject's organizations: a user's groups."""
    return tuple(_find_all(certificate, NameOID.ORGANIZATION_NAME))


def _find_all(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode(errors="replace") for value in values]


def _check_client_usage(_policy: Policy, _certificate: x509.Certificate, usage: x509.ExtendedKeyUsage | None) -> None:
    allowed = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    if usage is not None and not allowed.intersection(usage):
        raise ValueError("not for clients")


def _check_is_ca(_policy: Policy, _certificate: x509.Certificate, constraints: x509.BasicConstraints) -> None:
    if not constraints.ca:
        raise ValueError("not a CA")


# As in Go, a CA that lists usages limits those of what it issues.
_LEAF_POLICY = ExtensionPolicy.permit_all().may_be_present(
    x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _check_client_usage
)
_CA_POLICY = _LEAF_POLICY.require_present(x509.BasicConstraints, Criticality.AGNOSTIC, _check_is_ca)
