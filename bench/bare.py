"""The yardstick: an ASGI app that answers prepared bytes, under the adapter's uvicorn settings and TLS.

Usage: bare.py PORT ANSWERS CERT KEY CLIENT_CAS, where ANSWERS is JSON: {"PATH?QUERY": [status, headers, body]}.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from adapter.cli.server import UVICORN_SETTINGS
from adapter.server.transport import ServingTls

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


def build_app(answers: dict[bytes, Answer]) -> Callable[..., Awaitable[None]]:
    """Return the app that answers a target (path and query string) with *answers*, any other one with an empty 200."""
    empty: Answer = (200, [(b"content-length", b"0")], b"")

    async def app(scope: dict[str, Any], _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        target = scope["raw_path"] + b"?" + scope["query_string"]
        status, headers, body = answers.get(target, empty)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def main() -> None:
    """Serve until told to end."""
    port, answers_file, cert_file, key_file, ca_file = sys.argv[1:]
    answers: dict[bytes, Answer] = {
        target.encode(): (status, [(name.encode(), value.encode()) for name, value in headers], body.encode())
        for target, (status, headers, body) in json.loads(Path(answers_file).read_text()).items()
    }
    tls = ServingTls(Path(cert_file), Path(key_file))
    tls.trust(Path(ca_file).read_bytes())
    config = uvicorn.Config(
        build_app(answers),
        port=int(port),
        http="httptools",
        ssl_context_factory=lambda _config, _default: tls.build_front(),
        **UVICORN_SETTINGS,
    )
    uvloop.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
