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

from adapter.server import discovery
from adapter.server.respond import send_json
from adapter.server.routes import Metrics, find_target, serve_metric
from adapter.server.wire import GROUP, GROUP_VERSION, build_plain_status, encode_json

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
        has_started = False

        async def send_noting(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            target = find_target(scope)
            if target is None:
                await self._rest(scope, receive, send_noting)
            else:
                await serve_metric(scope, send_noting, target=target, metrics=self._metrics)
        except Exception:
            _log.exception("request_failed method=%s path=%s", scope["method"], scope["path"])
            if has_started:
                raise
            await send_json(
                send, build_plain_status(500, "InternalError", "a fault in depthgauge, see its log"), code=500
            )


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
    return app


async def _answer_ok() -> Response:
    return PlainTextResponse("ok")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(code, "InternalError")
    message = {
        404: "the server could not find the requested resource",
        405: f"{request.method} is not supported on this path, only GET is",
    }.get(code, HTTPStatus(code).phrase)
    headers = {"Allow": "GET"} if code == 405 else None
    body = encode_json(build_plain_status(code, reason, message))
    return Response(body, status_code=code, media_type="application/json", headers=headers)
