"""One connection to the secure server: who is at its other end, what it may send, and how it ends.

uvicorn keeps no peer certificate, sets no limit to a request's head, and waits for a client's goodbye for half a
minute; its protocol is extended by that.
"""

import asyncio
import ssl
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from adapter.server.authn import PEER_CHAIN
from adapter.server.wire import build_plain_status, encode_json

HEAD_LIMIT_BYTES = 1 << 20
"""How long a request's line and headers may be, as in Go's net/http."""

HEAD_PATIENCE_S = 30.0
"""How long a client may take for them; also until its first request."""

GOODBYE_S = 5.0
"""How long a closed connection may take to send what is left and to hear the client's own goodbye."""

_CHAIN_LIMIT = 8


class SecureConnection(HttpToolsProtocol):
    """HTTP/1.1 whose requests carry the client's certificates (DER, its own first) in the scope's state."""

    _peer_chain: tuple[bytes, ...] = ()
    _head_bytes: int = 0
    _is_in_head = True
    _is_refused = False
    _head_deadline: asyncio.TimerHandle | None = None
    _goodbye: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep what the handshake learnt, and wait for a request."""
        super().connection_made(transport)
        self._peer_chain = read_peer_chain(transport.get_extra_info("ssl_object"))
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_head_deadline()
        if self._goodbye is not None:
            self._goodbye.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        if self._is_refused:
            return
        super().data_received(data)
        if self._is_in_head and not self._is_refused:
            self._expect_head()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self._refuse(431, f"the request's line and headers are longer than {HEAD_LIMIT_BYTES} bytes")
        elif self._is_idle():
            self._expect_head()  # blank lines or a body that nobody reads: no reason to stay

    def on_message_begin(self) -> None:
        """Begin a request's scope."""
        super().on_message_begin()
        self.scope["state"][PEER_CHAIN] = self._peer_chain
        self._is_in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._is_in_head = False
        self._cancel_head_deadline()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or end."""
        super().on_response_complete()
        self._await_goodbye()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, as a Status like every other error."""
        self._refuse(400, msg)

    def shutdown(self) -> None:
        """Begin to end: at once if idle, else after the answer in flight."""
        super().shutdown()
        self._await_goodbye()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection."""
        super().timeout_keep_alive_handler()
        self._await_goodbye()

    def _is_idle(self) -> bool:
        return not self._is_refused and self.cycle.response_complete

    def _refuse(self, code: int, text: str) -> None:
        self._is_refused = True
        body = encode_json(build_plain_status(code, "BadRequest", text))
        head = (
            f"HTTP/1.1 {code} Refused\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "cache-control: no-cache, private\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
        self._await_goodbye()

    def _expect_head(self) -> None:
        if self._head_deadline is None:
            self._head_deadline = self.loop.call_later(HEAD_PATIENCE_S, self.timeout_keep_alive_handler)

    def _cancel_head_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _await_goodbye(self) -> None:
        if self._goodbye is None and self.transport.is_closing():
            self._goodbye = self.loop.call_later(GOODBYE_S, self.transport.abort)


class _Certificate(Protocol):
    def public_bytes(self, encoding: int, /) -> bytes: ...


_ENCODING_DER = 2  # of OpenSSL's certificates in the module _ssl


def read_peer_chain(tls: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """Return the certificates that the client has sent, DER, its own first; none if it has none.

    Python gives only the first before 3.13; there the object inside is asked for the others.
    """
    own = tls.getpeercert(binary_form=True) if tls is not None else None
    if own is None:
        return ()
    inner: Any = tls if hasattr(tls, "get_unverified_chain") else getattr(tls, "_sslobj", None)
    read_chain = getattr(inner, "get_unverified_chain", None)
    sent: list[bytes | _Certificate] = (read_chain() or []) if read_chain is not None else []
    others = [entry if isinstance(entry, bytes) else entry.public_bytes(_ENCODING_DER) for entry in sent[1:]]
    return (own, *others[:_CHAIN_LIMIT])
