"""The one hot path: GET .../namespaces/NAMESPACE/METRIC, as plain ASGI."""

from functools import lru_cache
from typing import Protocol
from urllib.parse import unquote

from starlette.types import Scope

from adapter.domain.answers import Answer
from adapter.errors import MethodNotAllowed, MetricError
from adapter.server.query_string import QueryOptions, is_person, parse_options
from adapter.server.respond import Reply, ReplyMemo, build_error_reply, build_reply
from adapter.server.wire import GROUP_VERSION, build_value_list
from adapter.serving.provider import Question

PREFIX = f"/apis/{GROUP_VERSION}/namespaces/".encode()

_PATHS_KEPT = 4096
_LONGEST_KEPT_BYTES = 1024


class Metrics(Protocol):
    """What the route needs: something that answers questions."""

    async def fetch(self, question: Question) -> Answer:
        """Return the items that *question* selects, or raise a MetricError."""
        ...


def find_target(scope: Scope) -> tuple[str, str] | None:
    """Return the (namespace, metric) that the path names, or None if it is not the path of a metric."""
    raw_path: bytes = scope["raw_path"]
    if not raw_path.startswith(PREFIX):
        return None
    return _parse_path(raw_path) if len(raw_path) <= _LONGEST_KEPT_BYTES else _parse_path.__wrapped__(raw_path)


@lru_cache(_PATHS_KEPT)
def _parse_path(raw_path: bytes) -> tuple[str, str] | None:
    """Return what follows the prefix, split before it is decoded: an escaped slash belongs to a name."""
    segments = raw_path[len(PREFIX) :].removesuffix(b"/").split(b"/")
    if len(segments) != 2 or not all(segments):
        return None
    try:
        namespace, metric = (unquote(segment.decode("ascii"), errors="strict") for segment in segments)
    except UnicodeDecodeError:
        return None
    return namespace, metric


class MetricRoute:
    """Answers requests for metrics with a value list or a Status."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._replies = ReplyMemo()

    async def answer(self, scope: Scope, target: tuple[str, str]) -> Reply:
        """Return the answer to one request; *target* is its (namespace, metric)."""
        namespace, metric = target
        options = QueryOptions(is_pretty=False)
        outcome: Answer | MetricError
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(method=scope["method"])
            options = parse_options(scope["query_string"])
            if options.is_watch:
                raise MethodNotAllowed(method="watch")
            outcome = await self._metrics.fetch(Question(namespace, metric, options.selector))
        except MetricError as error:
            outcome = error.with_traceback(None)  # it may be kept, and must not keep this request with it
        is_pretty = is_person(scope) if options.is_pretty is None else options.is_pretty
        asked = (metric, options.selector, namespace, is_pretty)
        reply = self._replies.find(asked, outcome)
        if reply is None:
            reply = _build_reply(outcome, metric, is_pretty=is_pretty)
            self._replies.keep(asked, outcome, reply)
        return reply


def _build_reply(outcome: Answer | MetricError, metric: str, *, is_pretty: bool) -> Reply:
    if isinstance(outcome, MetricError):
        return build_error_reply(outcome, metric, is_pretty=is_pretty)
    return build_reply(build_value_list(outcome, metric), is_pretty=is_pretty)
