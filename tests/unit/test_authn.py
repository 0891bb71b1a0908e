"""Authentication: the front proxy's word, else the client's certificate, else a token, else nobody."""

import asyncio
from dataclasses import replace

import pytest

from adapter.domain.identity import AuthenticationSettings, User
from adapter.errors import Unauthenticated
from adapter.server.authn import Authenticator, TokenCache
from tests.support.certificates import SERVER, Pair
from tests.support.door import (
    ALICE,
    CLIENT_CA,
    FRONT_PROXY,
    FRONT_PROXY_CA,
    SETTINGS,
    Headers,
    Reviews,
    ScriptedCluster,
    build_scope,
)
from tests.support.serving import NOW_S, ManualClock, asynchronous, run, settle, until

SPOOF = (("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"))
ALICE_USER = User("alice", groups=("team-a", "team-b", "system:authenticated"))


def build(
    settings: AuthenticationSettings = SETTINGS,
    *,
    cluster: ScriptedCluster | None = None,
    clock: ManualClock | None = None,
) -> Authenticator:
    """Return an authenticator that believes *settings*."""
    clock = clock or ManualClock()
    tokens = TokenCache(cluster or ScriptedCluster(), clock)
    return Authenticator(settings, tokens=tokens, clock=clock)


def authenticate(
    *chain: Pair,
    headers: Headers = (),
    settings: AuthenticationSettings = SETTINGS,
    cluster: ScriptedCluster | None = None,
) -> User:
    """Return who asks, in the authenticator's opinion."""
    scope = build_scope(chain=chain, headers=headers)
    user, complaints = run(build(settings, cluster=cluster).authenticate(scope))
    assert not complaints
    assert isinstance(user, User)
    return user


class TestFrontProxy:
    """The API server speaks for users; nobody else does."""

    def test_named_user_is_believed_with_groups_uid_and_extra(self) -> None:
        """All that the API server knows of the user arrives; keys of extra are percent-decoded and in lower case."""
        headers = (
            ("X-Remote-User", "system:serviceaccount:kube-system:hpa"),
            ("X-Remote-Uid", "42"),
            ("X-Remote-Group", "system:serviceaccounts"),
            ("X-Remote-Group", "team-ü"),
            ("X-Remote-Extra-Scopes", "read"),
            ("X-Remote-Extra-Scopes", "list"),
            ("X-Remote-Extra-Authentication.kubernetes.io%2FPod-Name", "hpa-0"),
            ("X-Forwarded-For", "10.0.0.1"),
        )
        assert authenticate(FRONT_PROXY, headers=headers) == User(
            "system:serviceaccount:kube-system:hpa",
            uid="42",
            groups=("system:serviceaccounts", "team-ü", "system:authenticated"),
            extra=(("authentication.kubernetes.io/pod-name", ("hpa-0",)), ("scopes", ("read", "list"))),
        )

    def test_first_of_several_names_counts(self) -> None:
        """As Go's Header.Get has it."""
        headers = (("X-Remote-User", "alice"), ("X-Remote-User", "bob"), ("X-Remote-Uid", "1"), ("X-Remote-Uid", "2"))
        assert authenticate(FRONT_PROXY, headers=headers) == User("alice", uid="1", groups=("system:authenticated",))

    def test_empty_groups_are_none(self) -> None:
        """As in Go, an empty header value is no group."""
        headers = (("X-Remote-User", "alice"), ("X-Remote-Group", ""), ("X-Remote-Group", "team-a"))
        assert authenticate(FRONT_PROXY, headers=headers).groups == ("team-a", "system:authenticated")

    def test_extra_of_one_key_in_two_spellings_is_all_kept(self) -> None:
        """Extra may narrow what a user may do: none of it is lost."""
        headers = (
            ("X-Remote-User", "alice"),
            ("X-Remote-Extra-a-b", "1"),
            ("X-Remote-Extra-a%2db", "2"),
            ("X-Remote-Extra-%zz", "3"),
        )
        assert authenticate(FRONT_PROXY, headers=headers).extra == (("%zz", ("3",)), ("a-b", ("1", "2")))

    def test_authenticated_group_is_added_once(self) -> None:
        """The aggregator's discovery user carries no groups; another may carry this one already."""
        headers = (("X-Remote-User", "alice"), ("X-Remote-Group", "system:authenticated"))
        assert authenticate(FRONT_PROXY, headers=headers).groups == ("system:authenticated",)

    @pytest.mark.parametrize("headers", [(), (("X-Remote-User", ""),), (("X-Remote-Group", "system:masters"),)])
    def test_proxy_that_names_nobody_is_nobody(self, headers: Headers) -> None:
        """The proxy itself is no user, whatever groups it names."""
        with pytest.raises(Unauthenticated):
            authenticate(FRONT_PROXY, headers=headers)

    def test_headers_are_those_of_the_settings(self) -> None:
        """The cluster says which headers its front proxy uses, and others are not looked at."""
        settings = replace(
            SETTINGS,
            username_headers=("x-first", "x-user"),
            uid_headers=(),
            group_headers=("x-team", "x-group"),
            extra_header_prefixes=("x-more-", "x-extra-"),
        )
        headers = (
            ("X-User", "alice"),
            ("X-Remote-Uid", "7"),
            ("X-Group", "b"),
            ("X-Team", "a"),
            ("X-Extra-K", "2"),
            ("X-More-K", "1"),
            ("X-Remote-Group", "system:masters"),
        )
        user = authenticate(FRONT_PROXY, headers=headers, settings=settings)
        assert user == User("alice", groups=("a", "b", "system:authenticated"), extra=(("k", ("1", "2")),))
        with pytest.raises(Unauthenticated):
            authenticate(FRONT_PROXY, headers=SPOOF, settings=settings)

    def test_name_outside_the_allowed_ones_is_refused(self) -> None:
        """A certificate of the right authority is not enough where the cluster lists the names."""
        with pytest.raises(Unauthenticated) as caught:
            authenticate(FRONT_PROXY_CA.issue("another", now_s=NOW_S), headers=SPOOF)
        assert "nor an allowed front proxy's" in caught.value.detail

    def test_any_name_is_allowed_where_none_is_listed(self) -> None:
        """An empty list means any, as in Go."""
        settings = replace(SETTINGS, allowed_names=frozenset())
        proxy = FRONT_PROXY_CA.issue("another", now_s=NOW_S)
        assert authenticate(proxy, headers=SPOOF, settings=settings).name == "admin"

    def test_certificate_for_servers_is_no_front_proxy(self) -> None:
        """The usage counts here too."""
        with pytest.raises(Unauthenticated):
            authenticate(FRONT_PROXY_CA.issue("front-proxy-client", now_s=NOW_S, usages=(SERVER,)), headers=SPOOF)


class TestSpoofing:
    """X-Remote-User from anybody else is no more than a header."""

    def test_headers_without_a_certificate_are_nobody(self) -> None:
        """Anyone can write them."""
        with pytest.raises(Unauthenticated) as caught:
            authenticate(headers=SPOOF)
        assert caught.value.detail == "the request has neither a client certificate nor a bearer token"

    def test_headers_of_a_user_are_ignored_and_the_user_judged(self) -> None:
        """A user of the cluster stays who the certificate says, also with the front proxy's own name in it."""
        assert authenticate(ALICE, headers=SPOOF) == ALICE_USER
        impostor = CLIENT_CA.issue("front-proxy-client", now_s=NOW_S)
        assert authenticate(impostor, headers=SPOOF) == User("front-proxy-client", groups=("system:authenticated",))

    def test_headers_beside_a_token_are_ignored(self) -> None:
        """The token's user is judged."""
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        headers = (*SPOOF, ("Authorization", "Bearer good"))
        assert authenticate(headers=headers, cluster=cluster) == User("bob", groups=("system:authenticated",))


class TestClientCertificate:
    """A user of the cluster may come directly."""

    def test_common_name_and_organizations_are_user_and_groups(self) -> None:
        """CN and O, and membership of system:authenticated."""
        assert authenticate(ALICE) == ALICE_USER

    def test_certificate_without_a_name_is_nobody(self) -> None:
        """No CN, no user."""
        with pytest.raises(Unauthenticated):
            authenticate(CLIENT_CA.issue(organizations=("system:masters",), now_s=NOW_S))

    def test_front_proxys_authority_makes_no_users(self) -> None:
        """Its certificates carry no user of their own."""
        with pytest.raises(Unauthenticated):
            authenticate(FRONT_PROXY_CA.issue("alice", organizations=("system:masters",), now_s=NOW_S))

    def test_certificate_of_a_stranger_is_nobody(self) -> None:
        """Also should the handshake ever let it pass."""
        with pytest.raises(Unauthenticated):
            authenticate(Pair.authority(now_s=NOW_S).issue("alice", now_s=NOW_S), headers=SPOOF)

    def test_token_counts_beside_a_certificate_of_nobody(self) -> None:
        """As in Go, the next authenticator is asked."""
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        stranger = Pair.authority(now_s=NOW_S).issue("alice", now_s=NOW_S)
        assert authenticate(stranger, headers=(("Authorization", "Bearer good"),), cluster=cluster).name == "bob"

    def test_certificate_counts_before_a_token(self) -> None:
        """And the token is not even reviewed."""
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        assert authenticate(ALICE, headers=(("Authorization", "Bearer good"),), cluster=cluster) == ALICE_USER
        assert cluster.reviewed_tokens == []


class TestToken:
    """The cluster says whose a bearer token is."""

    @pytest.mark.parametrize("value", ["Bearer good", "bearer good", "BEARER  good "])
    def test_good_token_is_its_user(self, value: str) -> None:
        """With all that the review says of the user."""
        cluster = ScriptedCluster(tokens={"good": User("bob", "7", ("team-b",), (("k", ("v",)),))})
        user = authenticate(headers=(("Authorization", value),), cluster=cluster)
        assert user == User("bob", "7", ("team-b", "system:authenticated"), (("k", ("v",)),))

    def test_bad_token_is_refused(self) -> None:
        """A token that the cluster does not accept is nobody's, and not quoted."""
        with pytest.raises(Unauthenticated) as caught:
            authenticate(headers=(("Authorization", "Bearer s3cret"),))
        assert caught.value.detail == "the bearer token is not valid"

    def test_token_that_cannot_be_reviewed_is_refused(self) -> None:
        """The cluster's failure is not the user's luck."""
        cluster = ScriptedCluster(tokens={"good": Unauthenticated(detail="the cluster cannot review the token: 500")})
        with pytest.raises(Unauthenticated) as caught:
            authenticate(headers=(("Authorization", "Bearer good"),), cluster=cluster)
        assert "cannot review" in caught.value.detail

    @pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic Z29vZA==", "good", "Bearergood"])
    def test_what_is_no_bearer_token_is_not_reviewed(self, value: str) -> None:
        """Anonymous users are refused without asking the cluster."""
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        with pytest.raises(Unauthenticated):
            authenticate(headers=(("Authorization", value),), cluster=cluster)
        assert cluster.reviewed_tokens == []


class TestTrustReplaced:
    """What the cluster says anew counts from the next request on."""

    @asynchronous
    async def test_rotated_authority_is_believed_and_the_old_one_is_not(self) -> None:
        """A2: no restart, and no remembered verdict of before."""
        authenticator = build()
        assert (await authenticator.authenticate(build_scope(chain=(FRONT_PROXY,), headers=SPOOF))).name == "admin"
        rotated = Pair.authority("front-proxy-ca", now_s=NOW_S)
        authenticator.trust(replace(SETTINGS, requestheader_ca_pem=rotated.pem))
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(build_scope(chain=(FRONT_PROXY,), headers=SPOOF))
        proxy = rotated.issue("front-proxy-client", now_s=NOW_S)
        assert (await authenticator.authenticate(build_scope(chain=(proxy,), headers=SPOOF))).name == "admin"

    @asynchronous
    async def test_changed_names_count_for_proxies_that_were_judged_before(self) -> None:
        """A name taken out is refused, one put in is allowed, though their certificates are known already."""
        authenticator = build()
        other = FRONT_PROXY_CA.issue("another", now_s=NOW_S)
        for allowed, refused, names in (
            (FRONT_PROXY, other, {"front-proxy-client"}),
            (other, FRONT_PROXY, {"another"}),
            (FRONT_PROXY, other, {"front-proxy-client"}),
        ):
            authenticator.trust(replace(SETTINGS, allowed_names=frozenset(names)))
            assert (await authenticator.authenticate(build_scope(chain=(allowed,), headers=SPOOF))).name == "admin"
            with pytest.raises(Unauthenticated):
                await authenticator.authenticate(build_scope(chain=(refused,), headers=SPOOF))

    @pytest.mark.parametrize("field", ["requestheader_ca_pem", "client_ca_pem"])
    @asynchronous
    async def test_unreadable_authority_changes_nothing(self, field: str) -> None:
        """Half of a new trust is not believed."""
        authenticator = build()
        other = {"requestheader_ca_pem": b"", "client_ca_pem": b"", field: b"junk"}
        with pytest.raises(ValueError, match=r".+"):
            authenticator.trust(replace(SETTINGS, allowed_names=frozenset(), **other))
        assert await authenticator.authenticate(build_scope(chain=(ALICE,))) == ALICE_USER
        stranger = FRONT_PROXY_CA.issue("another", now_s=NOW_S)
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(build_scope(chain=(stranger,), headers=SPOOF))


class TestTokenCache:
    """A token is reviewed once in ten seconds, however many requests carry it."""

    @asynchronous
    async def test_answer_stands_ten_seconds(self) -> None:
        """Good or bad, and not a moment longer."""
        clock, cluster, reviews = ManualClock(), ScriptedCluster(tokens={"good": User("bob")}), Reviews()
        cache = TokenCache(cluster, clock, reviews)
        for _ in range(3):
            assert await cache.review_token("good") == User("bob")
            assert await cache.review_token("bad") is None
        assert cluster.reviewed_tokens == ["good", "bad"]
        assert reviews.noted == [("token", False)] * 2 + [("token", True)] * 4
        clock.advance(9.9)
        await cache.review_token("good")
        assert cluster.reviewed_tokens == ["good", "bad"]
        clock.advance(0.2)
        cluster.tokens["good"] = None
        assert await cache.review_token("good") is None
        assert cluster.reviewed_tokens == ["good", "bad", "good"]

    @asynchronous
    async def test_many_at_once_are_one_review(self) -> None:
        """Single flight; one who goes away takes nobody's answer along."""
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        cluster.gate.clear()
        cache = TokenCache(cluster, ManualClock())
        tasks = [asyncio.create_task(cache.review_token("good")) for _ in range(50)]
        await settle()
        tasks[0].cancel()
        cluster.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert answers[1:] == [User("bob")] * 49
        assert cluster.reviewed_tokens == ["good"]

    @asynchronous
    async def test_failure_reaches_all_who_wait_and_is_not_kept(self) -> None:
        """The next request asks again."""
        cluster = ScriptedCluster(tokens={"good": Unauthenticated(detail="cannot review")})
        cluster.gate.clear()
        cache = TokenCache(cluster, ManualClock())
        tasks = [asyncio.create_task(cache.review_token("good")) for _ in range(3)]
        await settle()
        cluster.gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unauthenticated] * 3
        cluster.tokens["good"] = User("bob")
        assert await cache.review_token("good") == User("bob")

    @asynchronous
    async def test_silent_cluster_is_waited_for_five_seconds_and_no_longer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then nobody is let in."""
        from adapter.server import authn  # noqa: PLC0415 - to change its constant

        assert authn.PATIENCE_S == 5.0
        monkeypatch.setattr(authn, "PATIENCE_S", 0.02)
        cluster = ScriptedCluster(tokens={"good": User("bob")})
        cluster.gate.clear()
        cache = TokenCache(cluster, ManualClock())
        with pytest.raises(Unauthenticated) as caught:
            await cache.review_token("good")
        assert caught.value.detail == "the cluster did not answer the token review within 0.02s"
        cluster.gate.set()
        await until(lambda: not cache._users._asking)
        assert await cache.review_token("good") == User("bob")  # the late answer was kept
        assert cluster.reviewed_tokens == ["good"]

    @asynchronous
    async def test_tokens_take_bounded_memory_and_are_not_kept_themselves(self) -> None:
        """Neither a flood of tokens nor a look at the memory gets anywhere."""
        cache = TokenCache(ScriptedCluster(), ManualClock())
        for number in range(11_000):
            await cache.review_token(f"token-{number}")
        assert len(cache._users._kept) <= 10_000
        assert not any(b"token-" in key for key in cache._users._kept)
        assert not cache._users._asking
