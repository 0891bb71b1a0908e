"""Requests sent straight to the ASGI application, as uvicorn would, without a socket."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

from adapter.domain.answers import Answer, Item
from adapter.domain.quantity import Quantity
from adapter.server.app import Application
from adapter.server.authn import PEER_CHAIN
from adapter.serving.provider import Question
from tests.support.serving import NOW_S, run

ROOT = "/apis/external.metrics.k8s.io/v1beta1"
ANSWER = Answer((Item(labels={"queue": "a"}, timestamp_s=NOW_S, quantity=Quantity(5 * 10**9)),))


class Metrics:
    """Remembers questions, and answers or fails."""

    def __init__(self, outcome: Answer | Exception = ANSWER) -> None:
        self.outcome = outcome
        self.questions: list[Question] = []

    async def fetch(self, question: Question) -> Answer:
        """Answer, or fail."""
        self.questions.append(question)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass
class Reply:
    """What the application sent."""

    code: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def document(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)

    @property
    def cause(self) -> str:
        """Return our Reason in a Status."""
        cause: str = self.document["details"]["causes"][0]["reason"]
        return cause


def call(
    target: str | bytes,
    *,
    method: str = "GET",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    metrics: Metrics | None = None,
    names: Callable[[], list[str]] = lambda: ["depth"],
    application: ASGIApp | None = None,
    chain: tuple[bytes, ...] = (),
) -> Reply:
    """Send one request; *chain* are the certificates (DER) that the client showed in the handshake."""
    raw = target.encode() if isinstance(target, str) else target
    raw_path, _, query = raw.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii", "surrogateescape").encode("ascii", "replace").decode()),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {PEER_CHAIN: chain},
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    application = application or Application(metrics or Metrics(), names)
    _, complaints = run(application(scope, receive, send))  # type: ignore[arg-type]
    assert not complaints
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    start, end = sent
    return Reply(start["status"], dict(start["headers"]), end["body"])


def check_status(reply: Reply, code: int) -> None:
    """Check that *reply* is a v1 Status of *code* in JSON."""
    assert reply.code == code
    assert reply.headers[b"content-type"] == b"application/json"
    assert b"retry-after" not in reply.headers
    assert (reply.document["kind"], reply.document["apiVersion"]) == ("Status", "v1")
    assert (reply.document["status"], reply.document["code"]) == ("Failure", code)
    assert reply.document["message"]
    assert reply.document["reason"]
