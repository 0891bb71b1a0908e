"""The ASGI application: the hot path first, everything else through FastAPI, every error a Status."""

import logging
import time
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapter.errors import MetricError, Reason, ServerBusy
from adapter.server.authz import is_open_path
from adapter.server.discovery import add_discovery
from adapter.server.door import Door
from adapter.server.health import Health, Verdict
from adapter.server.respond import Reply, build_error_reply, build_reply
from adapter.server.routes import MetricRoute, Metrics, find_target
from adapter.server.wire import build_plain_status, encode_json
from adapter.serving.ticks import EvaluationFault

MAX_IN_FLIGHT = 400

_AUDIT_ID = b"audit-id"
_AUDIT_ID_LIMIT_BYTES = 64

_log = logging.getLogger(__name__)


class RequestObserver(Protocol):
    """What wants to know of requests."""

    def watch_in_flight(self, count: Callable[[], int]) -> None:
        """Take who knows how many requests are being answered."""
        ...

    def note_request(self, metric: str, reason: str, took_s: float) -> None:
        """Take one answer: the metric asked for (empty for other paths), our Reason or `OK`, and its seconds."""
        ...


class Application:
    """Serves the external metrics API.

    *list_metrics* gives the names that discovery shows; without a *door* everyone may come in (plain HTTP on
    loopback).
    """

    def __init__(  # noqa: PLR0913 - all but two by keyword
        self,
        metrics: Metrics,
        list_metrics: Callable[[], list[str]],
        *,
        door: Door | None = None,
        health: Health | None = None,
        observer: RequestObserver | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._route = MetricRoute(metrics)
        self._door = door
        self._health = health or Health()
        self._observer = observer
        self._max_in_flight = max_in_flight
        self._in_flight = 0
        if observer is not None:
            observer.watch_in_flight(lambda: self._in_flight)
        self._rest = build_rest(list_metrics, self._health)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI event stream."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        began_s = time.perf_counter()
        exchange = _Exchange(scope, send, is_last=self._health.is_draining)
        self._in_flight += 1
        target = find_target(scope)
        try:
            await self._answer(scope, receive, exchange, target)
        except Exception as error:
            if not isinstance(error, EvaluationFault):
                _log.exception("request_failed method=%s path=%r", scope["method"], scope["path"])
            exchange.reason = "Fault"  # also where the answer was on its way
            if not exchange.has_started:
                await exchange.reply(build_reply(_build_fault_status(), code=500, reason="Fault"))
            elif not exchange.has_ended:
                raise
        finally:
            self._in_flight -= 1
            if self._observer is not None:
                name = target[1] if target is not None else ""
                self._observer.note_request(name, exchange.reason, time.perf_counter() - began_s)

    async def _answer(
        self, scope: Scope, receive: Receive, exchange: "_Exchange", target: tuple[str, str] | None
    ) -> None:
        try:
            if self._in_flight > self._max_in_flight and not is_open_path(scope["path"]):
                raise ServerBusy(limit=self._max_in_flight)
            if self._door is not None:
                await self._door.check_admission(scope, target)
        except MetricError as error:
            await exchange.reply(build_error_reply(error, target[1] if target is not None else ""))
            return
        if target is None:
            if "\n" in scope["path"]:  # Starlette's patterns end with `$`, so /readyz%0A would be /readyz
                scope = {**scope, "path": scope["path"].replace("\n", "\N{SYMBOL FOR NEWLINE}")}
            await self._rest(scope, receive, exchange.send)
        else:
            await exchange.reply(await self._route.answer(scope, target))


class _Exchange:
    """One request's answer on its way out: how far it came, and the headers that every answer has."""

    __slots__ = ("_extra", "_send", "has_ended", "has_started", "reason")

    def __init__(self, scope: Scope, send: Send, *, is_last: bool) -> None:
        self._send = send
        self._extra = [(_AUDIT_ID, _find_audit_id(scope))]
        if is_last:  # draining: the client's next request should find another server
            self._extra.append((b"connection", b"close"))
        self.has_started = False
        self.has_ended = False
        self.reason: str = "OK"

    async def reply(self, reply: Reply) -> None:
        """Send *reply*."""
        self.reason = reply.reason
        self.has_started = True
        headers = [*reply.headers, *self._extra]
        await self._send({"type": "http.response.start", "status": reply.code, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body})
        self.has_ended = True

    async def send(self, message: Message) -> None:
        """Pass *message* on."""
        self.has_started = True
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self._extra]
        await self._send(message)
        self.has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)


def _find_audit_id(scope: Scope) -> bytes:
    """Return the request's own Audit-ID if it has a usable one, else a new one."""
    for name, value in scope["headers"]:
        if name == _AUDIT_ID and 0 < len(value) <= _AUDIT_ID_LIMIT_BYTES and _is_printable(value):
            return bytes(value)
    return str(uuid.uuid4()).encode()


def _is_printable(value: bytes) -> bool:
    return value.isascii() and value.decode().isprintable()


def build_rest(list_metrics: Callable[[], list[str]], health: Health) -> FastAPI:
    """Return the application for everything but the metrics themselves."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    add_discovery(app, list_metrics)
    add_health(app, health)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_fault)
    return app


def add_health(app: FastAPI, health: Health) -> None:
    """Add the probes' paths to *app*."""

    async def answer(request: Request) -> Response:
        name = request.scope["path"].strip("/")
        is_verbose = "verbose" in request.query_params
        judge = health.judge_readiness if name == "readyz" else health.judge_liveness
        return _build_health_answer(judge(name, is_verbose=is_verbose))

    for path in ("/healthz", "/livez", "/readyz"):
        app.add_api_route(path, answer, methods=["GET"])


def build_operations(health: Health, render_metrics: Callable[[], tuple[bytes, str]]) -> ASGIApp:
    """Return the application of the second port: probes and self-metrics, plain HTTP, for the cluster's own use.

    *render_metrics* returns the exposition and its content type.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    add_health(app, health)

    async def answer_metrics(_request: Request) -> Response:
        body, content_type = render_metrics()
        return Response(body, headers={"Content-Type": content_type})

    app.add_api_route("/metrics", answer_metrics, methods=["GET"])
    return app


def _build_health_answer(verdict: Verdict) -> Response:
    return PlainTextResponse(verdict.text, status_code=200 if verdict.is_well else 503)


def _build_fault_status() -> dict[str, Any]:
    return build_plain_status(500, "InternalError", "a fault in depthgauge, see its log")


async def _answer_fault(_request: Request, _error: Exception) -> Response:
    """Answer in place of the framework's plain text; the fault itself goes on to `Application`, which logs it."""
    return Response(encode_json(_build_fault_status()), status_code=500, media_type="application/json")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(code, "InternalError")
    message = {
        404: "the server could not find the requested resource",
        405: f"{request.method} is not supported on this path, only GET is",
    }.get(code, HTTPStatus(code).phrase)
    headers = {"Allow": "GET"} if code == 405 else None
    cause = Reason.METHOD_NOT_ALLOWED if code == 405 else None
    body = encode_json(build_plain_status(code, reason, message, cause=cause))
    return Response(body, status_code=code, media_type="application/json", headers=headers)
