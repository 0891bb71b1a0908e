"""Sends one JSON answer over ASGI: always JSON, never a Retry-After."""

from typing import Any

from starlette.types import Send

from adapter.server.wire import encode_json

_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache, private"),
    (b"x-content-type-options", b"nosniff"),
]


async def send_json(
    send: Send,
    document: Any,  # noqa: ANN401 - any JSON document
    *,
    code: int = 200,
    is_pretty: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Send *document* with status *code*."""
    body = encode_json(document, is_pretty=is_pretty)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": code, "headers": [*_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": body})
