"""A cluster that reviews tokens and accesses as it is told, and requests as the secure transport hands them over."""

import asyncio
from collections.abc import Sequence
from typing import Any

from adapter.domain.identity import AccessDecision, AccessQuestion, AuthenticationSettings, User
from adapter.server.authn import PEER_CHAIN, Authenticator, TokenCache
from adapter.server.authz import Authorizer
from adapter.server.door import Door
from tests.support.certificates import DAY_S, Pair
from tests.support.serving import NOW_S, ManualClock

FRONT_PROXY_CA = Pair.authority("front-proxy-ca", now_s=NOW_S, begins_in_s=-400 * DAY_S, ends_in_s=400 * DAY_S)
CLIENT_CA = Pair.authority("cluster-ca", now_s=NOW_S, begins_in_s=-400 * DAY_S, ends_in_s=400 * DAY_S)
FRONT_PROXY = FRONT_PROXY_CA.issue("front-proxy-client", now_s=NOW_S, ends_in_s=300 * DAY_S)
ALICE = CLIENT_CA.issue("alice", organizations=("team-a", "team-b"), now_s=NOW_S, ends_in_s=300 * DAY_S)
SETTINGS = AuthenticationSettings(
    requestheader_ca_pem=FRONT_PROXY_CA.pem,
    client_ca_pem=CLIENT_CA.pem,
    allowed_names=frozenset({"front-proxy-client"}),
)
ALLOWED = AccessDecision(is_allowed=True)
DENIED = AccessDecision(is_allowed=False)
Headers = Sequence[tuple[str, str]]


class ScriptedCluster:
    """Answers reviews from tables: a user, None or an error for a token; a decision or an error for an access.

    While `gate` is not set, no review is answered.
    """

    def __init__(
        self, *, tokens: dict[str, User | Exception | None] | None = None, access: AccessDecision | Exception = ALLOWED
    ) -> None:
        self.tokens = dict(tokens or {})
        self.access = access
        self.reviewed_tokens: list[str] = []
        self.reviewed_access: list[tuple[User, AccessQuestion]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def review_token(self, token: str) -> User | None:
        """Answer a token review."""
        self.reviewed_tokens.append(token)
        await self.gate.wait()
        outcome = self.tokens.get(token)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def review_access(self, user: User, question: AccessQuestion) -> AccessDecision:
        """Answer an access review."""
        self.reviewed_access.append((user, question))
        await self.gate.wait()
        if isinstance(self.access, Exception):
            raise self.access
        return self.access


class Reviews:
    """Remembers what was noted of reviews."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, bool]] = []

    def note_review(self, kind: str, *, is_hit: bool) -> None:
        """Take one."""
        self.noted.append((kind, is_hit))


def build_door(
    cluster: ScriptedCluster, *, clock: ManualClock | None = None, settings: AuthenticationSettings = SETTINGS
) -> Door:
    """Return a door that believes *settings* and asks *cluster*."""
    clock = clock or ManualClock()
    tokens = TokenCache(cluster, clock)
    return Door(Authenticator(settings, tokens=tokens, clock=clock), Authorizer(cluster, clock))


def build_scope(
    path: str = "/apis",
    *,
    chain: Sequence[Pair] = (),
    headers: Headers = (),
    method: str = "GET",
) -> dict[str, Any]:
    """Return a request of a client that showed *chain* in the handshake."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "state": {PEER_CHAIN: tuple(pair.der for pair in chain)},
    }
