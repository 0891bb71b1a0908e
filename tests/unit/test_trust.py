"""Client certificates: each is verified against the one authority that it claims, as k8s.io/apiserver verifies it."""

from collections.abc import Callable

import pytest
from cryptography import x509

from adapter.server.trust import ClientCa, find_common_name, find_organizations
from tests.support.certificates import (
    ANY,
    CLIENT,
    DAY_S,
    SERVER,
    Pair,
    PrivateKey,
    ecdsa_key,
    ed25519_key,
    make,
    rsa_key,
)
from tests.support.serving import NOW_S, ManualClock

AUTHORITY = Pair.authority(now_s=NOW_S, begins_in_s=-400 * DAY_S, ends_in_s=400 * DAY_S)
OTHER = Pair.authority(now_s=NOW_S)  # of the same name, with another key


def verify(
    *chain: Pair, trusted: tuple[Pair, ...] = (AUTHORITY,), clock: ManualClock | None = None
) -> x509.Certificate | None:
    """Return what the trusted authorities say of a client that sends *chain*."""
    bundle = b"".join(pair.pem for pair in trusted)
    return ClientCa(bundle, clock or ManualClock()).verify(tuple(pair.der for pair in chain))


def issue(**changes: object) -> Pair:
    """Return a client's certificate from the trusted authority."""
    return AUTHORITY.issue("alice", **{"now_s": NOW_S, **changes})


@pytest.mark.parametrize("new_key", [ecdsa_key, rsa_key, ed25519_key])
def test_client_of_the_authority_is_believed_whatever_its_key(new_key: Callable[[], PrivateKey]) -> None:
    """RSA, ECDSA and Ed25519 are what Kubernetes users have."""
    client = issue(new_key=new_key)
    assert verify(client) == client.certificate


@pytest.mark.parametrize("new_key", [ecdsa_key, rsa_key])
def test_authority_may_have_either_usual_key(new_key: Callable[[], PrivateKey]) -> None:
    """Authorities with RSA and ECDSA keys verify their clients."""
    authority = Pair.authority(now_s=NOW_S, new_key=new_key)
    client = authority.issue("alice", now_s=NOW_S)
    assert verify(client, trusted=(authority,)) == client.certificate


def test_authority_with_an_ed25519_key_verifies_nobody() -> None:
    """Stricter than Go, and documented: the verification that is used does not know it for authorities."""
    authority = Pair.authority(now_s=NOW_S, new_key=ed25519_key)
    assert verify(authority.issue("alice", now_s=NOW_S), trusted=(authority,)) is None


def test_client_of_another_authority_of_the_same_name_is_not_believed() -> None:
    """The name of an issuer proves nothing; its signature does."""
    assert verify(OTHER.issue("alice", now_s=NOW_S)) is None


def test_any_authority_of_the_bundle_verifies() -> None:
    """While an authority is rotated the bundle holds both."""
    for authority in (AUTHORITY, OTHER):
        client = authority.issue("alice", now_s=NOW_S)
        assert verify(client, trusted=(AUTHORITY, OTHER)) == client.certificate


@pytest.mark.parametrize(
    ("usages", "is_believed"),
    [
        pytest.param((CLIENT,), True, id="client"),
        pytest.param((SERVER, CLIENT), True, id="both"),
        pytest.param((ANY,), True, id="any"),
        pytest.param(None, True, id="none-listed-is-any-as-in-go"),
        pytest.param((SERVER,), False, id="server"),
        pytest.param((x509.ObjectIdentifier("1.2.3.4"),), False, id="unknown"),
    ],
)
def test_certificate_must_be_for_clients(
    usages: tuple[x509.ObjectIdentifier, ...] | None,
    is_believed: bool,  # noqa: FBT001 - a table
) -> None:
    """A serving certificate of the same authority identifies no user; one without usages may be used for anything."""
    assert (verify(issue(usages=usages)) is not None) == is_believed


@pytest.mark.parametrize(
    ("begins_in_s", "ends_in_s"),
    [
        pytest.param(-DAY_S, -1, id="expired"),
        pytest.param(1, DAY_S, id="not-yet-valid"),
    ],
)
def test_certificate_outside_its_time_is_not_believed(begins_in_s: float, ends_in_s: float) -> None:
    """Neither an expired certificate nor one that is not valid yet."""
    assert verify(issue(begins_in_s=begins_in_s, ends_in_s=ends_in_s)) is None


@pytest.mark.parametrize(
    ("begins_in_s", "ends_in_s"), [pytest.param(-DAY_S, -1, id="expired"), pytest.param(1, DAY_S, id="not-yet-valid")]
)
def test_authority_outside_its_time_verifies_nobody(begins_in_s: float, ends_in_s: float) -> None:
    """As in Go, the trusted certificate's own time counts."""
    authority = Pair.authority(now_s=NOW_S, begins_in_s=begins_in_s, ends_in_s=ends_in_s)
    assert verify(authority.issue("alice", now_s=NOW_S), trusted=(authority,)) is None


@pytest.mark.parametrize(
    "authority",
    [
        pytest.param(Pair.authority(now_s=NOW_S, is_ca=False), id="CA-false"),
        pytest.param(make("ca", now_s=NOW_S), id="no-basic-constraints"),
        pytest.param(Pair.authority(now_s=NOW_S, usages=(SERVER,)), id="for-servers-alone"),
    ],
)
def test_certificate_that_is_no_authority_for_clients_verifies_nobody(authority: Pair) -> None:
    """What may not issue has issued nothing, even where it is in the bundle."""
    assert verify(authority.issue("alice", now_s=NOW_S), trusted=(authority,)) is None


def test_clients_certificate_issues_no_others() -> None:
    """A user cannot make another user with the certificate that the authority gave it."""
    mallory = issue()
    assert verify(mallory.issue("admin", now_s=NOW_S), mallory) is None


class TestIntermediates:
    """An authority may issue through another one."""

    middle = AUTHORITY.issue("middle", now_s=NOW_S, is_ca=True, usages=None)
    client = middle.issue("alice", now_s=NOW_S)

    def test_chain_that_the_client_sends_is_followed(self) -> None:
        """As Go does, the certificates after the client's own are taken for links."""
        assert verify(self.client, self.middle) == self.client.certificate

    def test_link_from_the_bundle_is_followed(self) -> None:
        """The bundle may hold the intermediate authority too, or it alone."""
        assert verify(self.client, trusted=(AUTHORITY, self.middle)) == self.client.certificate
        assert verify(self.client, trusted=(self.middle,)) == self.client.certificate

    def test_missing_link_is_not_guessed(self) -> None:
        """Without the link nothing is proven, and that verdict is not taken for the one with it."""
        authority = ClientCa(AUTHORITY.pem, ManualClock())
        assert authority.verify((self.client.der,)) is None
        assert authority.verify((self.client.der, self.middle.der)) == self.client.certificate
        assert authority.verify((self.client.der,)) is None

    def test_unrelated_certificates_in_the_chain_do_no_harm(self) -> None:
        """What a client sends besides is not looked at, unless it is no certificate at all."""
        assert verify(self.client, OTHER, self.middle) == self.client.certificate
        chain = (self.client.der, self.middle.der, b"junk")
        assert ClientCa(AUTHORITY.pem, ManualClock()).verify(chain) is None


@pytest.mark.parametrize("der", [b"", b"junk", AUTHORITY.der[:-1], AUTHORITY.pem])
def test_bytes_that_are_no_certificate_prove_nothing(der: bytes) -> None:
    """Whatever stands in for a certificate is refused, never raised about."""
    assert ClientCa(AUTHORITY.pem, ManualClock()).verify((der,)) is None


@pytest.mark.parametrize("pem", [b"", b" \n"])
def test_empty_bundle_verifies_nobody(pem: bytes) -> None:
    """A cluster without such an authority has no such users."""
    assert ClientCa(pem, ManualClock()).verify((issue().der,)) is None


@pytest.mark.parametrize(
    "pem", [b"junk", AUTHORITY.pem.replace(b"M", b"", 1), AUTHORITY.pem[:200], AUTHORITY.key_pem, AUTHORITY.der]
)
def test_bundle_that_cannot_be_read_is_an_error(pem: bytes) -> None:
    """The caller then keeps the previous one; half a bundle is never believed."""
    with pytest.raises(ValueError, match=r".+"):
        ClientCa(pem, ManualClock())


def test_text_beside_certificates_is_ignored() -> None:
    """Bundles carry comments, in any language."""
    client = issue()
    authority = ClientCa("# Prüfstelle\n".encode() + AUTHORITY.pem + b"# end\n", ManualClock())
    assert authority.verify((client.der,)) == client.certificate


def test_belief_ends_with_the_certificate() -> None:
    """A remembered verdict does not outlive what it is about: not the client's certificate, nor the authority's."""
    clock = ManualClock()
    brief = Pair.authority(now_s=NOW_S, ends_in_s=60)
    for trusted, client in ((AUTHORITY, issue(ends_in_s=60)), (brief, brief.issue("alice", now_s=NOW_S))):
        clock.wall_s = NOW_S
        authority = ClientCa(trusted.pem, clock)
        assert authority.verify((client.der,)) is not None
        clock.advance(59)
        assert authority.verify((client.der,)) is not None
        clock.advance(2)
        assert authority.verify((client.der,)) is None


def test_refusal_does_not_stand_for_ever() -> None:
    """A certificate that was not valid yet is believed soon after it is."""
    clock = ManualClock()
    authority = ClientCa(AUTHORITY.pem, clock)
    early = issue(begins_in_s=5)
    assert authority.verify((early.der,)) is None
    clock.advance(16)
    assert authority.verify((early.der,)) is not None


def test_verdicts_take_bounded_memory() -> None:
    """However many certificates come by, no more than some thousand verdicts are kept."""
    authority = ClientCa(AUTHORITY.pem, ManualClock())
    for number in range(10_000):
        authority.verify((str(number).encode(),))
    assert len(authority._judged) <= 4096


def test_last_of_several_common_names_is_the_users() -> None:
    """Go's crypto/x509 keeps the last one; another choice would make another user of the same certificate."""
    client = AUTHORITY.issue("admin", "alice", now_s=NOW_S, organizations=("team-a", "team-b"))
    assert find_common_name(client.certificate) == "alice"
    assert find_organizations(client.certificate) == ("team-a", "team-b")


def test_certificate_without_a_common_name_names_nobody() -> None:
    """Verified, but no user."""
    client = AUTHORITY.issue(now_s=NOW_S, organizations=("team-a",))
    assert verify(client) == client.certificate
    assert find_common_name(client.certificate) == ""
