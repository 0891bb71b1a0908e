"""JSON answers as a whole, ready to be sent, also more than once: always JSON, never a Retry-After."""

from dataclasses import dataclass
from typing import Any

from adapter.domain.answers import Answer
from adapter.errors import MethodNotAllowed, MetricError
from adapter.server.wire import build_error_status, encode_json

_HEADERS = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache, private"),
    (b"x-content-type-options", b"nosniff"),
)

_REPLIES_LIMIT_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 2048  # what keeping an answer, or an error, costs beside the body

Asked = tuple[str, str, str, bool]
"""What a reply depends on beside its answer: metric and selector as they were asked, namespace, and indentation."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: *reason* is ours, or `OK`, for the self-metrics."""

    code: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def build_reply(
    document: Any,  # noqa: ANN401 - any JSON document
    *,
    code: int = 200,
    reason: str = "OK",
    is_pretty: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Reply:
    """Return *document* as an answer."""
    body = encode_json(document, is_pretty=is_pretty)
    return Reply(code, reason, (*_HEADERS, (b"content-length", str(len(body)).encode()), *headers), body)


def build_error_reply(error: MetricError, metric: str, *, is_pretty: bool = False) -> Reply:
    """Return the Status of *error* as an answer; *metric* is empty where it is about none."""
    status = build_error_status(error, metric)
    allow = ((b"allow", b"GET"),) if isinstance(error, MethodNotAllowed) else ()
    return build_reply(status, code=error.reason.code, reason=error.reason, is_pretty=is_pretty, headers=allow)


class ReplyMemo:
    """The last reply to each question, to be sent again for as long as its answer, or error, is the very same object.

    It stays the same for a tick: `serving` keeps it. So a reply is built once for each question and tick.
    """

    def __init__(self) -> None:
        self._kept: dict[Asked, tuple[Answer | MetricError, Reply]] = {}
        self._kept_bytes = 0

    def find(self, asked: Asked, outcome: Answer | MetricError) -> Reply | None:
        """Return the reply that says *outcome* to *asked*, or None."""
        kept = self._kept.get(asked)
        return kept[1] if kept is not None and kept[0] is outcome else None

    def keep(self, asked: Asked, outcome: Answer | MetricError, reply: Reply) -> None:
        """Keep *reply*, within a bound on memory: any client may invent questions. What it replaces counts on."""
        size_bytes = len(reply.body) + sum(map(len, asked[:3])) + _ENTRY_BYTES
        if self._kept_bytes + size_bytes > _REPLIES_LIMIT_BYTES:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept_bytes += size_bytes
        self._kept[asked] = (outcome, reply)
