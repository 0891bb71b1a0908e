"""Authentication as the generic API server does it: front proxy, client certificate, token, or nobody.

Source: k8s.io/apiserver pkg/authentication/authenticatorfactory, request/headerrequest and request/x509.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Protocol

from cryptography import x509
from starlette.types import Scope

from adapter.clock import Clock
from adapter.domain.identity import AuthenticationSettings, User
from adapter.errors import Unauthenticated
from adapter.server.identity_headers import IdentityHeaders
from adapter.server.reviews import ReviewCache, ReviewObserver
from adapter.server.trust import ClientCa, find_common_name, find_organizations

PEER_CHAIN = "peer_chain"
"""Where the transport puts the client's certificates (DER, its own first; a tuple) into the scope's state."""

PATIENCE_S = 5.0
"""How long the cluster may take to review a token."""

_PROXIES_KEPT = 1024


class TokenReviewer(Protocol):
    """What authentication asks the cluster."""

    async def review_token(self, token: str) -> User | None:
        """Return the user of a bearer token, None if it is not valid; raises Unauthenticated if nobody can say."""
        ...


class TokenCache:
    """Reviews tokens and keeps the answers for a while; the tokens themselves are not kept."""

    def __init__(self, reviewer: TokenReviewer, clock: Clock, observer: ReviewObserver | None = None) -> None:
        self._reviewer = reviewer
        self._users: ReviewCache[bytes, User | None] = ReviewCache("token", clock, observer)

    async def review_token(self, token: str) -> User | None:
        """Return the user of a bearer token, None if it is not valid; raises Unauthenticated if nobody can say."""
        digest = hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).digest()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._users.get(digest, lambda: self._reviewer.review_token(token))
        except TimeoutError:
            detail = f"the cluster did not answer the token review within {PATIENCE_S:g}s"
            raise Unauthenticated(detail=detail) from None


class Authenticator:
    """Finds out who asks; `trust` replaces whom it believes, for the requests from then on."""

    def __init__(self, settings: AuthenticationSettings, *, tokens: TokenReviewer, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self.trust(settings)

    def trust(self, settings: AuthenticationSettings) -> None:
        """Believe *settings* from now on. Raises ValueError, and changes nothing, if a CA in them cannot be read."""
        front_proxy_ca = ClientCa(settings.requestheader_ca_pem, self._clock)
        client_ca = ClientCa(settings.client_ca_pem, self._clock)
        self._allowed_names, self._identity_headers = settings.allowed_names, IdentityHeaders(settings)
        self._front_proxy_ca, self._client_ca = front_proxy_ca, client_ca
        self._are_allowed: dict[tuple[bytes, ...], bool] = {}

    async def authenticate(self, scope: Scope) -> User:
        """Return who asks, as a member of system:authenticated.

        Raises: Unauthenticated. There is no anonymous user.
        """
        chain: tuple[bytes, ...] = scope["state"].get(PEER_CHAIN, ())
        user = self._find_by_certificate(chain, scope["headers"]) if chain else None
        if user is None:
            token = _find_bearer_token(scope["headers"])
            if token is None:
                raise Unauthenticated(detail=_explain(chain))
            user = await self._tokens.review_token(token)
            if user is None:
                raise Unauthenticated(detail="the bearer token is not valid")
        return user.with_authenticated_group()

    def _find_by_certificate(self, chain: tuple[bytes, ...], headers: Sequence[tuple[bytes, bytes]]) -> User | None:
        proxy = self._front_proxy_ca.verify(chain)
        if proxy is not None and self._is_allowed(chain, proxy):
            user = self._identity_headers.read(headers)
            if user is not None:
                return user
        certificate = self._client_ca.verify(chain)
        if certificate is None or not (name := find_common_name(certificate)):
            return None
        return User(name=name, groups=find_organizations(certificate))

    def _is_allowed(self, chain: tuple[bytes, ...], proxy: x509.Certificate) -> bool:
        """Return whether *proxy*, verified out of *chain*, may speak for others; its name is read once."""
        is_allowed = self._are_allowed.get(chain)
        if is_allowed is None:
            if len(self._are_allowed) >= _PROXIES_KEPT:
                self._are_allowed.clear()
            is_allowed = not self._allowed_names or find_common_name(proxy) in self._allowed_names
            self._are_allowed[chain] = is_allowed
        return is_allowed


def _find_bearer_token(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").strip().partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                return token.strip()
    return None


def _explain(chain: tuple[bytes, ...]) -> str:
    if not chain:
        return "the request has neither a client certificate nor a bearer token"
    return "the client certificate is neither a user's of this cluster nor an allowed front proxy's"
