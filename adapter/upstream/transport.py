"""Connections to one backend: HTTP/1.1, kept alive, and nothing a browser would do. The only user of httpx.

`httpx.AsyncHTTPTransport` is used without its client: so there are no proxy variables, redirects, cookies, default
timeouts or log lines to switch off, and a query pays for none of them.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import httpx

from adapter.clock import Clock
from adapter.domain.backends import BackendSettings
from adapter.errors import BackendRefused, BackendUnavailable, MetricError
from adapter.upstream.failures import CERTIFICATE_HINT, describe_cause
from adapter.upstream.tls import TlsFiles

logger = logging.getLogger(__name__)

KEEPALIVE_S = 60.0
"""How long an idle connection is kept: longer than the usual tick, shorter than the usual idle limit of a server."""

PROBE_CONNECTIONS = 4
"""Idle connections kept beyond maxConcurrency, for the probes that do not wait for a place."""

_FAILURES = (httpx.TransportError, OSError, UnicodeError)
"""What an exchange may raise: httpx' own errors, and what slips through from the layers below."""

_ENDED_EARLY = ("disconnected", "peer closed connection")

_AFTER_HANDSHAKE = ("while sending the query", "while waiting for the answer")

_STAGES = {
    "connection.connect_tcp.started": "while connecting",
    "connection.start_tls.started": "in the TLS handshake",
    "http11.send_request_headers.started": _AFTER_HANDSHAKE[0],
    "http11.receive_response_headers.started": _AFTER_HANDSHAKE[1],
}


class _Closable(Protocol):
    async def aclose(self) -> None: ...


@dataclass(slots=True)
class Progress:
    """How far one query came, for the error that says where its time went."""

    stage: str = "before connecting"
    received_bytes: int = 0
    is_new_connection: bool = False
    _socket: _Closable | None = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take one of httpcore's trace events."""
        stage = _STAGES.get(event)
        if stage is not None:
            self.stage = stage
        if event == "connection.connect_tcp.started":
            self.is_new_connection = True
        elif event == "connection.connect_tcp.complete":
            self._socket = info["return_value"]
        elif event == "connection.start_tls.failed" and self._socket is not None:
            # httpcore closes the socket of a failed handshake, but not of a cancelled one: it would stay open until a
            # hung server closes it.
            await self._socket.aclose()

    def describe(self) -> str:
        """Return the stage, and the size of what arrived of the body."""
        return f"{self.stage} ({self.received_bytes} bytes came)" if self.received_bytes else self.stage


@dataclass(frozen=True, slots=True)
class Request:
    """One query as HTTP: *params* go into the URL, *body* is a form."""

    params: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an HTTP answer, and its body as it arrives: *chunks* are still encoded.

    Reading *chunks* raises BackendUnavailable where the connection ends too early, BackendRefused where the framing
    is broken.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    @property
    def location(self) -> str:
        """Return where a redirect points, without query, fragment and user info: they may hold tokens."""
        try:
            url = httpx.URL(self.headers.get("location", ""))
            return str(url.copy_with(query=None, fragment=None, userinfo=b""))
        except (httpx.InvalidURL, ValueError):
            return "an invalid url"


@dataclass(eq=False, slots=True)
class _Pool:
    """One transport and the queries under way on it; a retired one is closed when the last has ended."""

    transport: httpx.AsyncHTTPTransport
    context: ssl.SSLContext | None
    tls_contents: tuple[bytes, ...]
    in_flight: int = 0
    is_retired: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Connections:
    """The kept-alive connections to one backend, made anew when its TLS files change or the server went away."""

    def __init__(self, settings: BackendSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._url = settings.url.rstrip("/") + "/api/v1/query"
        self._is_tls = settings.url.lower().startswith("https:")
        self._tls = TlsFiles(settings.tls, clock=clock)
        self._pool: _Pool | None = None
        self._building = asyncio.Lock()
        self._broken_contents: tuple[bytes, ...] | None = None
        self._complaint = ""
        self._is_closed = False

    @asynccontextmanager
    async def post(self, request: Request, progress: Progress) -> AsyncGenerator[Answer]:
        """Send *request* to the query API and give the answer's head as soon as it is there.

        A kept-alive connection that turns out to be closed (the server restarted) is no error: the query is sent once
        more, on a new connection. A query has no effects, so sending it twice is harmless.

        Raises: BackendUnavailable with is_connection; BackendRefused where what comes back is not HTTP.
        """
        prepared = self._prepare(request, progress)
        where = _host_of(prepared.url)
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(self._lease())
            try:
                try:
                    response = await pool.transport.handle_async_request(prepared)
                except _FAILURES:
                    if progress.is_new_connection:
                        raise
                    self._abandon(pool)
                    pool = await stack.enter_async_context(self._lease())
                    response = await pool.transport.handle_async_request(prepared)
            except httpx.LocalProtocolError:
                # Without its cause, which quotes the header.
                raise BackendUnavailable(detail="the configured headers cannot be sent over HTTP") from None
            except _FAILURES as exc:
                failure = _translate_failure(exc, where)
                raise self._hint_at_certificate(failure, progress) from exc
            try:
                async with aclosing(_read_chunks(response, progress, where)) as chunks:
                    yield Answer(response.status_code, response.headers, chunks)
            finally:
                # Closes the connection too, unless the body was read to its end.
                await response.aclose()

    async def aclose(self) -> None:
        """Close all connections, after the queries under way have ended; each has its own deadline."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await self._retire(pool)
            if pool.in_flight:
                await pool.ended.wait()

    def _prepare(self, request: Request, progress: Progress) -> httpx.Request:
        extensions: dict[str, object] = {"trace": progress.trace}
        if self._settings.tls.server_name is not None:
            extensions["sni_hostname"] = self._settings.tls.server_name
        try:
            # Parameters stand in the URL, not in the form: servers read both, but a proxy that authorizes by one
            # (kube-rbac-proxy before Thanos' `namespace`) reads only the URL.
            url = httpx.URL(self._url, params=dict(request.params)) if request.params else httpx.URL(self._url)
            headers = list(request.headers.items())
            return httpx.Request("POST", url, headers=headers, content=request.body, extensions=extensions)
        except (httpx.InvalidURL, ValueError) as exc:
            raise BackendUnavailable(detail=f"the url of backend {self._settings.name} is invalid") from exc

    def _hint_at_certificate(self, failure: MetricError, progress: Progress) -> MetricError:
        """Say more where a new TLS connection was closed after its handshake.

        In TLS 1.3 a server refuses a missing client certificate only then, and its alert is lost if it closes at once.
        """
        is_after_handshake = self._is_tls and progress.is_new_connection and progress.stage in _AFTER_HANDSHAKE
        if (
            is_after_handshake
            and self._settings.tls.cert_file is None
            and isinstance(failure, BackendUnavailable)
            and CERTIFICATE_HINT not in failure.detail
        ):
            return replace(failure, detail=f"{failure.detail}; {CERTIFICATE_HINT}")
        return failure

    @asynccontextmanager
    async def _lease(self) -> AsyncGenerator[_Pool]:
        pool = await self._find_current()
        pool.in_flight += 1
        try:
            yield pool
        finally:
            pool.in_flight -= 1
            if pool.is_retired and pool.in_flight == 0:
                pool.ended.set()
                await pool.transport.aclose()

    async def _find_current(self) -> _Pool:
        self._check_open()
        if not self._is_tls:
            if self._pool is None:
                self._pool = self._make_pool(None, ())
            return self._pool
        contents = self._read_tls_files()
        if contents is None or self._is_settled(contents):
            assert self._pool is not None  # noqa: S101  for the type checker: both say so
            return self._pool
        async with self._building:
            if not self._is_settled(contents):
                await self._rebuild(contents)
            self._check_open()
            assert self._pool is not None  # noqa: S101
            return self._pool

    def _check_open(self) -> None:
        if self._is_closed:
            raise BackendUnavailable(detail=f"backend {self._settings.name} is no longer in the configuration")

    def _read_tls_files(self) -> tuple[bytes, ...] | None:
        """Return the files' contents, or None where they cannot be read and the connections at hand must do."""
        try:
            return self._tls.read()
        except BackendUnavailable as exc:
            if self._pool is None:
                raise
            self._complain(exc.detail)
            return None

    def _is_settled(self, contents: tuple[bytes, ...]) -> bool:
        return self._pool is not None and contents in {self._pool.tls_contents, self._broken_contents}

    async def _rebuild(self, contents: tuple[bytes, ...]) -> None:
        try:
            context = await asyncio.to_thread(self._tls.build_context)
        except BackendUnavailable as exc:
            if self._pool is None:
                raise
            self._broken_contents = contents
            self._complain(exc.detail)
            return
        self._complaint = ""
        self._check_open()
        old, self._pool = self._pool, self._make_pool(context, contents)
        if old is not None:
            logger.info("tls_files_reloaded backend=%s", self._settings.name)
            await self._retire(old)

    def _complain(self, detail: str) -> None:
        if detail != self._complaint:
            self._complaint = detail
            logger.warning('tls_files_unusable backend=%s detail="%s" kept=previous', self._settings.name, detail)

    def _make_pool(self, context: ssl.SSLContext | None, tls_contents: tuple[bytes, ...]) -> _Pool:
        # The number of connections is not bounded here: a query has a place (maxConcurrency) before it comes here, and
        # a bounded httpcore pool can lose a slot for good when a queued query is cancelled in the wrong moment.
        limits = httpx.Limits(
            max_connections=None,
            max_keepalive_connections=self._settings.max_concurrency + PROBE_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
        )
        verify = context if context is not None else False
        return _Pool(httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits), context, tls_contents)

    def _abandon(self, stale: _Pool) -> None:
        """Put a pool without connections in the place of *stale*, whose server has closed them."""
        if self._pool is stale:
            self._pool = self._make_pool(stale.context, stale.tls_contents)
            stale.is_retired = True

    async def _retire(self, pool: _Pool) -> None:
        pool.is_retired = True
        if pool.in_flight == 0:
            pool.ended.set()
            await pool.transport.aclose()


async def _read_chunks(response: httpx.Response, progress: Progress, where: str) -> AsyncGenerator[bytes]:
    progress.stage = "while the answer was arriving"
    try:
        async for chunk in response.aiter_raw():
            progress.received_bytes += len(chunk)
            yield chunk
    except _FAILURES as exc:
        raise _translate_failure(exc, where) from exc


def _host_of(url: httpx.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _translate_failure(exc: Exception, where: str) -> MetricError:
    """Return the error for a failed exchange with the server at *where* ("name:port").

    Everything is BackendUnavailable with is_connection, but for bytes that are not HTTP: there a server answers, and it
    is the wrong one (BackendRefused). Nothing that the other side said is quoted, nor any header of ours.
    """
    cause = describe_cause(exc)
    if cause:
        return BackendUnavailable(detail=f"cannot reach {where}: {cause}", is_connection=True)
    if isinstance(exc, httpx.UnsupportedProtocol):
        return BackendUnavailable(detail="the url is neither http nor https")
    if isinstance(exc, httpx.RemoteProtocolError) and not any(mark in str(exc).lower() for mark in _ENDED_EARLY):
        return BackendRefused(detail=f"bytes that are not HTTP (from {where})")
    if isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout | UnicodeError):
        return BackendUnavailable(detail=f"cannot reach {where}", is_connection=True)
    detail = f"{where} closed the connection before the answer was complete"
    return BackendUnavailable(detail=detail, is_connection=True)
