"""One connection: who is at its other end, how long it may be silent, how it ends; without a socket or a clock."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from adapter.server import connection
from adapter.server.authn import PEER_CHAIN
from adapter.server.connection import GOODBYE_S, HEAD_LIMIT_BYTES, HEAD_PATIENCE_S, SecureConnection, read_peer_chain
from tests.support.door import ALICE, CLIENT_CA
from tests.support.serving import asynchronous, settle

REQUEST = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"


class Timer:
    """What `call_later` returns."""

    def __init__(self, delay_s: float, callback: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not run."""
        self.is_cancelled = True


class Loop:
    """The running loop, but for timers, which the test lets pass."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio.get_running_loop(), name)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Put off."""
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]

    def pass_time(self, seconds: float) -> None:
        """Run what is due within *seconds* of when it was put off."""
        due = [timer for timer in self.timers if timer.delay_s <= seconds and not timer.is_cancelled]
        for timer in due:
            timer.cancel()
            timer.callback()

    def has_timer(self, delay_s: float) -> bool:
        """Tell whether something waits for exactly so long."""
        return any(timer.delay_s == delay_s and not timer.is_cancelled for timer in self.timers)


class Tls:
    """What the handshake learnt."""

    def __init__(self, chain: tuple[bytes, ...]) -> None:
        self._chain = chain

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        """Return the client's own certificate."""
        assert binary_form
        return self._chain[0] if self._chain else None

    def get_unverified_chain(self) -> list[bytes]:
        """Return what the client has sent, as Python 3.13 does."""
        return list(self._chain)


class Transport:
    """Keeps what was written."""

    def __init__(self, chain: tuple[bytes, ...] = ()) -> None:
        self.written = b""
        self.is_closed = self.is_aborted = False
        self._tls = Tls(chain)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the TLS object, and nothing else."""
        return self._tls if name == "ssl_object" else default

    def write(self, piece: bytes) -> None:
        """Take a piece."""
        self.written += piece

    def close(self) -> None:
        """Begin to close."""
        self.is_closed = True

    def abort(self) -> None:
        """Close at once."""
        self.is_aborted = True

    def is_closing(self) -> bool:
        """Tell whether it ends."""
        return self.is_closed

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


class Peer:
    """A connection with its far end in the test's hand."""

    def __init__(self, chain: tuple[bytes, ...] = ()) -> None:
        self.loop = Loop()
        self.transport = Transport(chain)
        self.scopes: list[Any] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        config = uvicorn.Config(self._answer, log_config=None, ws="none", lifespan="off", interface="asgi3")
        config.load()
        self.protocol = SecureConnection(config, ServerState(), {}, _loop=self.loop)  # type: ignore[arg-type]
        self.protocol.connection_made(self.transport)  # type: ignore[arg-type]

    async def _answer(self, scope: Any, _receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(self, data: bytes) -> None:
        """Send *data* and let the server work."""
        self.protocol.data_received(data)
        await settle()


@asynchronous
async def test_every_request_of_a_connection_carries_its_certificates() -> None:
    """The client's own first, then what it has sent besides; a tuple, empty without."""
    chain = (ALICE.der, CLIENT_CA.der)
    for sent in (chain, ()):
        peer = Peer(sent)
        await peer.send(REQUEST)
        await peer.send(REQUEST)
        assert [scope["state"][PEER_CHAIN] for scope in peer.scopes] == [sent, sent]


def test_chain_is_bounded() -> None:
    """Nobody fills the memory with certificates."""
    chain = read_peer_chain(Tls((b"own", *(bytes([number]) for number in range(100)))))  # type: ignore[arg-type]
    assert chain[0] == b"own"
    assert len(chain) == 1 + connection._CHAIN_LIMIT


def test_no_certificate_is_an_empty_chain() -> None:
    """Over TLS without one, and without TLS."""
    assert read_peer_chain(None) == ()
    assert read_peer_chain(Tls(())) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((), id="nothing"),
        pytest.param((b"GET /x HT",), id="half-a-line"),
        pytest.param((REQUEST, b"GET /x HTTP/1.1\r\nHo"), id="half-the-second"),
        pytest.param((REQUEST, b"\r\n"), id="blank-line"),
        pytest.param((b"POST /x HTTP/1.1\r\nContent-Length: 100\r\n\r\n", b"x"), id="unread-body"),
    ],
)
@asynchronous
async def test_silent_client_is_closed_after_half_a_minute(sent: tuple[bytes, ...]) -> None:
    """Wherever it fell silent."""
    peer = Peer()
    for piece in sent:
        await peer.send(piece)
    peer.loop.pass_time(HEAD_PATIENCE_S - 1)
    assert not peer.transport.is_closed
    peer.loop.pass_time(HEAD_PATIENCE_S)
    assert peer.transport.is_closed


@asynchronous
async def test_trickling_client_gets_no_more_time() -> None:
    """Each byte does not begin the half minute anew."""
    peer = Peer()
    for _ in range(5):
        await peer.send(b"G")
    assert sum(timer.delay_s == HEAD_PATIENCE_S for timer in peer.loop.timers) == 1


@asynchronous
async def test_slow_answer_is_not_cut_by_the_clients_deadline() -> None:
    """The deadline is the client's, not ours."""
    peer = Peer()
    peer.may_answer.clear()
    await peer.send(REQUEST)
    peer.loop.pass_time(1000.0)
    assert not peer.transport.is_closed
    peer.may_answer.set()
    await settle()
    assert peer.transport.written.endswith(b"ok")


@asynchronous
async def test_head_of_many_pieces_is_bounded() -> None:
    """431 and the end; what follows is not even parsed."""
    peer = Peer()
    await peer.send(b"GET /x HTTP/1.1\r\n")
    for _ in range(HEAD_LIMIT_BYTES // 10_000 + 1):
        await peer.send(b"X: " + b"x" * 9_995 + b"\r\n")
    head, _, body = peer.transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["code"] == 431
    assert peer.transport.is_closed
    written = len(peer.transport.written)
    await peer.send(b"\r\n\r\n" + REQUEST)
    assert len(peer.transport.written) == written
    assert not peer.scopes


@asynchronous
async def test_long_head_within_the_bound_is_answered() -> None:
    """Also on a connection that has sent as much before."""
    peer = Peer()
    for _ in range(3):
        await peer.send(b"GET /x HTTP/1.1\r\nX: " + b"x" * (HEAD_LIMIT_BYTES // 2))
        await peer.send(b"\r\n\r\n")
    assert peer.transport.written.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("how", ["idle", "busy", "refused", "asked-to-close"])
@asynchronous
async def test_closed_connection_is_cut_after_some_seconds_without_goodbye(how: str) -> None:
    """TLS would wait for the client's close_notify for half a minute, and the process with it."""
    peer = Peer()
    if how == "idle":
        await peer.send(REQUEST)
        peer.protocol.shutdown()
    elif how == "busy":
        peer.may_answer.clear()
        await peer.send(REQUEST)
        peer.protocol.shutdown()
        assert not peer.transport.is_closed
        peer.may_answer.set()
        await settle()
    elif how == "refused":
        await peer.send(b"GARBAGE\r\n\r\n")
    else:
        await peer.send(b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert peer.transport.is_closed
    assert not peer.transport.is_aborted
    assert peer.loop.has_timer(GOODBYE_S)
    peer.loop.pass_time(GOODBYE_S)
    assert peer.transport.is_aborted


@asynchronous
async def test_ended_connection_leaves_no_timers() -> None:
    """Neither the head's nor the goodbye's."""
    peer = Peer()
    await peer.send(b"GET")
    peer.protocol.shutdown()
    peer.protocol.connection_lost(None)
    assert not [timer for timer in peer.loop.timers if not timer.is_cancelled]
