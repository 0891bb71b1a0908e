"""The one hot path: GET .../namespaces/NAMESPACE/METRIC, as plain ASGI."""

from typing import Protocol
from urllib.parse import unquote

from starlette.types import Scope, Send

from adapter.domain.answers import Answer
from adapter.errors import MethodNotAllowed, MetricError
from adapter.server.query_string import QueryOptions, parse_options
from adapter.server.respond import send_json
from adapter.server.wire import GROUP_VERSION, build_error_status, build_value_list
from adapter.serving.provider import Question

PREFIX = f"/apis/{GROUP_VERSION}/namespaces/".encode()


class Metrics(Protocol):
    """What the route needs: something that answers questions."""

    async def fetch(self, question: Question) -> Answer:
        """Return the items that *question* selects, or raise a MetricError."""
        ...


def find_target(scope: Scope) -> tuple[str, str] | None:
    """Return the (namespace, metric) that the path names, or None if it is not the path of a metric.

    The path is split before it is decoded: an escaped slash belongs to a name.
    """
    raw_path: bytes = scope["raw_path"]
    if not raw_path.startswith(PREFIX):
        return None
    segments = raw_path[len(PREFIX) :].removesuffix(b"/").split(b"/")
    if len(segments) != 2 or not all(segments):
        return None
    try:
        namespace, metric = (unquote(segment.decode("ascii"), errors="strict") for segment in segments)
    except UnicodeDecodeError:
        return None
    return namespace, metric


async def serve_metric(scope: Scope, send: Send, *, target: tuple[str, str], metrics: Metrics) -> str:
    """Answer one request for a metric with a value list or a Status; return our Reason, or `OK`."""
    namespace, metric = target
    options = QueryOptions()
    try:
        if scope["method"] != "GET":
            raise MethodNotAllowed(method=scope["method"])
        options = parse_options(scope)
        if options.is_watch:
            raise MethodNotAllowed(method="watch")
        answer = await metrics.fetch(Question(namespace, metric, options.selector))
    except MetricError as error:
        allow = ((b"allow", b"GET"),) if isinstance(error, MethodNotAllowed) else ()
        status = build_error_status(error, metric)
        await send_json(send, status, code=error.reason.code, is_pretty=options.is_pretty, headers=allow)
        return error.reason
    await send_json(send, build_value_list(answer, metric), is_pretty=options.is_pretty)
    return "OK"
