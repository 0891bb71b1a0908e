"""Authorization: the cluster's own answer to "may this user do this?", kept for ten seconds.

Source: k8s.io/apiserver pkg/server/options/authorization.go and plugin/pkg/authorizer/webhook.
"""

import asyncio
from typing import Protocol

from starlette.types import Scope

from adapter.clock import Clock
from adapter.domain.identity import AccessDecision, AccessQuestion, User
from adapter.errors import Forbidden
from adapter.server.reviews import ReviewCache, ReviewObserver
from adapter.server.wire import GROUP, VERSION

PATIENCE_S = 3.0
"""How long the cluster may take to answer: less than the aggregator and the HPA controller wait for us."""

_SUPERUSERS = "system:masters"
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class AccessReviewer(Protocol):
    """What authorization asks the cluster."""

    async def review_access(self, user: User, question: AccessQuestion) -> AccessDecision:
        """Return the cluster's decision; raises Forbidden if nobody can decide."""
        ...


class Authorizer:
    """Lets pass what the cluster allows; what it cannot be asked about is not allowed."""

    def __init__(self, reviewer: AccessReviewer, clock: Clock, observer: ReviewObserver | None = None) -> None:
        self._reviewer = reviewer
        self._decisions: ReviewCache[tuple[User, AccessQuestion], AccessDecision] = ReviewCache(
            "access", clock, observer
        )

    async def check_access(self, user: User, question: AccessQuestion) -> None:
        """Return if *user* may; raises Forbidden naming user, verb and resource."""
        if _SUPERUSERS in user.groups:
            return
        kept = self._decisions.find((user, question))
        decision = kept[0] if kept is not None else await self._review(user, question)
        if not decision.is_allowed:
            raise Forbidden(action=describe_denial(user, question), detail=decision.reason)

    async def _review(self, user: User, question: AccessQuestion) -> AccessDecision:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._decisions.get((user, question), lambda: self._ask(user, question))
        except TimeoutError:
            detail = f"the cluster did not answer the access review within {PATIENCE_S:g}s"
            raise Forbidden(action=describe_denial(user, question), detail=detail) from None
        except Forbidden as error:
            raise Forbidden(action=describe_denial(user, question), detail=error.detail) from error

    async def _ask(self, user: User, question: AccessQuestion) -> AccessDecision:
        return await self._reviewer.review_access(user, question)


def is_open_path(path: str) -> bool:
    """Return whether *path* is answered to everyone: the probes' paths."""
    return path in _OPEN_PATHS


def build_metric_question(method: str, namespace: str, metric: str) -> AccessQuestion:
    """Return what a request for a metric asks: a GET that names no object is a `list`."""
    verb = "list" if method in {"GET", "HEAD"} else _VERBS.get(method, method.lower())
    return AccessQuestion(verb=verb, group=GROUP, version=VERSION, resource=metric, namespace=namespace)


def build_path_question(scope: Scope) -> AccessQuestion:
    """Return what a request for anything else asks."""
    return AccessQuestion(verb=scope["method"].lower(), path=scope["path"])


def describe_denial(user: User, question: AccessQuestion) -> str:
    """Return the sentence of the generic API server."""
    if question.path:
        return f'User "{user.name}" cannot {question.verb} path "{question.path}"'
    return (
        f'User "{user.name}" cannot {question.verb} resource "{question.resource}" '
        f'in API group "{question.group}" in the namespace "{question.namespace}"'
    )
