"""The ASGI application: the hot path first, everything else through FastAPI, every error a Status."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from adapter.errors import Reason
from adapter.server import discovery
from adapter.server.respond import send_json
from adapter.server.routes import Metrics, find_target, serve_metric
from adapter.server.wire import GROUP, GROUP_VERSION, build_plain_status, encode_json
from adapter.serving.ticks import EvaluationFault

_HEALTH_PATHS = ("/healthz", "/livez", "/readyz")

_log = logging.getLogger(__name__)


class Application:
    """Serves the external metrics API. *list_metrics* gives the names that discovery shows."""

    def __init__(self, metrics: Metrics, list_metrics: Callable[[], list[str]]) -> None:
        self._metrics = metrics
        self._rest = build_rest(list_metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI event stream."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        has_started = has_ended = False

        async def send_noting(message: Message) -> None:
            nonlocal has_started, has_ended
            has_started = True
            await send(message)
            has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            target = find_target(scope)
            if target is None:
                await self._rest(scope, receive, send_noting)
            else:
                await serve_metric(scope, send_noting, target=target, metrics=self._metrics)
        except Exception as error:
            if not isinstance(error, EvaluationFault):
                _log.exception("request_failed method=%s path=%r", scope["method"], scope["path"])
            if not has_started:
                await send_json(send, _build_fault_status(), code=500)
            elif not has_ended:
                raise


def build_rest(list_metrics: Callable[[], list[str]]) -> FastAPI:
    """Return the application for everything but the metrics themselves."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)

    def add(path: str, build: Callable[[], Any]) -> None:
        async def endpoint() -> Response:
            return Response(encode_json(build()), media_type="application/json")

        app.add_api_route(path, endpoint, methods=["GET"])
        app.add_api_route(f"{path}/", endpoint, methods=["GET"])

    add("/apis", discovery.build_group_list)
    add(f"/apis/{GROUP}", discovery.build_group)
    add(f"/apis/{GROUP_VERSION}", lambda: discovery.build_resource_list(list_metrics()))
    for path in _HEALTH_PATHS:
        app.add_api_route(path, _answer_ok, methods=["GET"])
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_fault)
    return app


async def _answer_ok() -> Response:
    return PlainTextResponse("ok")


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
