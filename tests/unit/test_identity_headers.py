"""The user whom a front proxy names: read once for each combination of headers, never mixed up."""

from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.identity import AuthenticationSettings, User
from adapter.server.identity_headers import Header, IdentityHeaders

ALICE: list[Header] = [
    (b"x-remote-user", b"alice"),
    (b"x-remote-group", b"team-a"),
    (b"x-remote-extra-example.org%2fkey", b"1"),
]

headers = st.lists(
    st.tuples(
        st.sampled_from([b"x-remote-user", b"x-remote-group", b"x-remote-uid", b"x-remote-extra-a", b"accept"]),
        st.sampled_from([b"alice", b"bob", b"", b" ", b"\xff"]),
    ),
    max_size=6,
)


def test_reading_again_gives_the_same_user_whatever_else_the_request_has() -> None:
    """Headers that name nobody, such as Audit-Id, differ from request to request and cost no second reading."""
    reader = IdentityHeaders(AuthenticationSettings())
    first = reader.read([*ALICE, (b"audit-id", b"1")])
    assert first == User("alice", groups=("team-a", "system:authenticated"), extra=(("example.org/key", ("1",)),))
    assert reader.read([(b"audit-id", b"2"), *ALICE]) is first


@given(st.lists(headers, max_size=5))
def test_remembered_users_are_those_of_a_fresh_reading(requests: list[list[Header]]) -> None:
    """Nobody is ever taken for the one who asked before."""
    reader = IdentityHeaders(AuthenticationSettings())
    for request in requests:
        assert reader.read(request) == IdentityHeaders(AuthenticationSettings()).read(request)


def test_users_take_bounded_memory() -> None:
    """However many users the proxy names, and however long their names, what is kept is bounded."""
    reader = IdentityHeaders(AuthenticationSettings())
    for index in range(5_000):
        assert reader.read([(b"x-remote-user", b"user-%d" % index)]) is not None
    assert 0 < len(reader._users) <= 4096
    kept = len(reader._users)
    assert reader.read([(b"x-remote-user", b"u" * 10_000)]) is not None
    assert len(reader._users) == kept
