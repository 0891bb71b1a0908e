"""A Prometheus that answers whatever it is told to, for the faults that a real one cannot produce.

It speaks HTTP/1.1 over a real socket, in a thread with its own event loop, so that synchronous and asynchronous tests
use it alike:

    with FakePrometheus() as fake:
        fake.set("sum(q)", vector([({"queue": "a"}, "5")]))
        ...
        assert fake.count("sum(q)") == 1
"""

import asyncio
import gzip
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import trustme

from adapter.domain.guardqueries import DOWN_TARGETS, TAG, build_freshness_query
from adapter.domain.inputs import derive_inputs
from adapter.domain.rules import Guards

JSON_TYPE = {"Content-Type": "application/json"}
PROBE = "vector(1)"
TLS_HANDSHAKE = b"\x16"
_DURATION = re.compile(r"[0-9]*\.?[0-9]+|(?:[0-9]+(?:ms|[smhdwy]))+")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came: *fields* are the form's and the URL's, as Go's `r.Form` merges them."""

    method: str
    path: str
    url_fields: Mapping[str, str]
    form: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    connection: int
    """The number of the connection it came on, from 1."""
    received_s: float
    """`time.monotonic()` at its arrival."""

    @property
    def fields(self) -> Mapping[str, str]:
        """Return the form's fields before the URL's."""
        return {**self.url_fields, **self.form}

    @property
    def query(self) -> str:
        """Return the PromQL."""
        return self.fields.get("query", "")

    @property
    def time_s(self) -> float:
        """Return the instant asked for, in Unix seconds; now where none was given."""
        return float(self.fields["time"]) if "time" in self.fields else time.time()


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer, and how badly.

    *body* is bytes, or JSON, or a function of the request that returns either. *delay_s* passes before the first byte;
    *is_hung* never sends one. *drip_bytes_per_s* trickles the body; *cut_after_bytes* closes the connection within it;
    *raw* replaces the whole answer, head too. *chunk_bytes* sends the body chunked, without Content-Length.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON_TYPE))
    delay_s: float = 0.0
    is_hung: bool = False
    drip_bytes_per_s: float | None = None
    cut_after_bytes: int | None = None
    chunk_bytes: int | None = None
    is_gzipped: bool = False
    is_closed_after: bool = False
    raw: bytes | None = None
    labels: tuple[Mapping[str, str], ...] | None = None
    """Of the series in it, for what the guards ask about them."""

    def but(self, **changes: Any) -> "Answer":
        """Return this answer with some fields changed: `vector([...]).but(delay_s=1.0)`."""
        return replace(self, **changes)


def vector(
    series: Sequence[tuple[Mapping[str, str], str]],
    *,
    warnings: Sequence[str] | None = None,
    infos: Sequence[str] | None = None,
    is_partial: bool | None = None,
) -> Answer:
    """Answer with a vector of (labels, value text) at the instant asked for."""
    return _success(
        "vector",
        lambda time_s: [{"metric": dict(labels), "value": [time_s, text]} for labels, text in series],
        warnings=warnings,
        infos=infos,
        isPartial=is_partial,
    ).but(labels=tuple(dict(labels) for labels, _ in series))


def scalar(text: str) -> Answer:
    """Answer with a scalar."""
    return _success("scalar", lambda time_s: [time_s, text]).but(labels=({},))


def string(text: str = "42") -> Answer:
    """Answer with a string."""
    return _success("string", lambda time_s: [time_s, text])


def matrix(series: Sequence[tuple[Mapping[str, str], Sequence[str]]] = (({"queue": "a"}, ("5",)),)) -> Answer:
    """Answer with a matrix; also an empty one."""
    return _success(
        "matrix",
        lambda time_s: [
            {"metric": dict(labels), "values": [[time_s - index, text] for index, text in enumerate(texts)]}
            for labels, texts in series
        ],
    )


def native_histogram() -> Answer:
    """Answer with a vector of one native histogram."""
    histogram = {"count": "2", "sum": "3", "buckets": [[0, "0.5", "1", "2"]]}
    return _success("vector", lambda time_s: [{"metric": {"queue": "a"}, "histogram": [time_s, histogram]}])


def error(status: int, error_type: str, text: str) -> Answer:
    """Answer with the API's own error."""
    return Answer(status=status, body={"status": "error", "errorType": error_type, "error": text})


def page(status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> Answer:
    """Answer with something that is not JSON."""
    return Answer(status=status, body=text.encode(), headers={"Content-Type": content_type})


def redirect(location: str = "/api/v1/query", status: int = 302) -> Answer:
    """Answer with a redirect, by default to the same place for ever."""
    return Answer(status=status, headers={"Location": location})


HANG = Answer(is_hung=True)


class Authority:
    """A certificate authority with files in *folder*, for a fake that speaks TLS and may ask for certificates."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self._issued = 0
        self.ca_file = folder / f"{name}.pem"
        self.ca_file.write_bytes(self.ca_pem)

    @property
    def ca_pem(self) -> bytes:
        """Return the certificate of the authority."""
        return self._ca.cert_pem.bytes()

    def build_server_context(self, *names: str, is_client_required: bool = False) -> ssl.SSLContext:
        """Return a server's context with a certificate for *names*, by default 127.0.0.1 and localhost."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(context)
        if is_client_required:
            self._ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def issue_identity(self, name: str = "depthgauge") -> tuple[Path, Path]:
        """Return the files of a new client certificate and its key."""
        self._issued += 1
        leaf = self._ca.issue_cert(f"{name}@example.org", common_name=name)
        cert_file = self._folder / f"{name}-{self._issued}.crt"
        key_file = self._folder / f"{name}-{self._issued}.key"
        cert_file.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key_file.write_bytes(leaf.private_key_pem.bytes())
        return cert_file, key_file


class Gate:
    """Holds answers back while it is closed; open at first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = True
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def close(self) -> None:
        """Hold every answer from now on; requests are still taken and recorded."""
        with self._lock:
            self._is_open = False

    def open(self) -> None:
        """Let all held answers go."""
        with self._lock:
            self._is_open = True
            waiting, self._waiting = self._waiting, []
        for loop, opened in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(opened.set)

    def __enter__(self) -> Self:
        self.close()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.open()

    async def passed(self) -> None:
        """Return once the gate is open."""
        with self._lock:
            if self._is_open:
                return
            opened = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), opened))
        await opened.wait()


class FakePrometheus:
    """The fake server; a context manager. See the module's docstring."""

    def __init__(self, *, prefix: str = "", ssl_context: ssl.SSLContext | None = None) -> None:
        self.prefix = prefix.rstrip("/")
        self.gate = Gate()
        self.everything: Answer | None = None
        """Answers every query while it is set, the probe too."""
        self.unknown: Answer | None = None
        """Answers queries that have no answer of their own; None: 400 bad_data."""
        self._answers: dict[str, list[Answer]] = {PROBE: [vector([({}, "1")])], DOWN_TARGETS: [vector([])]}
        self._ssl_context = ssl_context
        self._lock = threading.Condition()
        self._requests: list[Request] = []
        self._abandoned = 0
        self._connections = 0
        self._broken_up_to = 0
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._transports: set[asyncio.Transport] = set()

    def set(self, promql: str, *answers: Answer) -> None:
        """Answer *promql* with *answers*, one after the other; the last one stays.

        What guards ask about *promql* is answered too, as by a server with fresh samples: see `vouch`.
        """
        with self._lock:
            self._answers[promql] = list(answers)
        labels = [row for answer in answers for row in answer.labels or ()]
        self.vouch(promql, labels)

    def vouch(self, promql: str, labels: Sequence[Mapping[str, str]], *, age_s: float = 1.0) -> None:
        """Say that the series with *labels*, in the result of *promql*, rest on samples that are *age_s* old."""
        inputs = derive_inputs(promql)
        query = build_freshness_query(inputs, max_age_s=Guards().max_age_s, with_age=True, with_count=False)
        grouping = inputs.grouping
        rows = [row if grouping is None else {name: row[name] for name in grouping if name in row} for row in labels]

        def build(request: Request) -> object:
            newest = str(request.time_s - age_s)
            tagged = [{**row, TAG: f"a{index}"} for index in range(len(inputs.selectors)) for row in rows]
            return vector([(row, newest) for row in tagged]).body(request)

        if query:
            with self._lock:
                self._answers[query] = [Answer(body=build)]

    @property
    def url(self) -> str:
        """Return the base URL for a backend's configuration."""
        scheme = "https" if self._ssl_context is not None else "http"
        return f"{scheme}://127.0.0.1:{self._port}{self.prefix}"

    @property
    def port(self) -> int:
        """Return the port, which stays over stop() and start()."""
        return self._port

    @property
    def requests(self) -> Sequence[Request]:
        """Return all requests so far, in the order of their arrival."""
        with self._lock:
            return tuple(self._requests)

    def count(self, promql: str) -> int:
        """Return how often *promql* was asked."""
        return sum(request.query == promql for request in self.requests)

    @property
    def abandoned(self) -> int:
        """Return how many requests the client gave up (closed the connection) before their answer was complete."""
        with self._lock:
            return self._abandoned

    @property
    def connections(self) -> int:
        """Return how many connections were accepted."""
        with self._lock:
            return self._connections

    def wait_for_requests(self, number: int, *, promql: str | None = None, timeout_s: float = 10.0) -> None:
        """Wait until *number* requests (for *promql*) have come in all."""

        def is_reached() -> bool:
            return sum(promql is None or request.query == promql for request in self._requests) >= number

        self._wait(is_reached, f"{number} requests", timeout_s)

    def wait_for_abandoned(self, number: int, *, timeout_s: float = 10.0) -> None:
        """Wait until *number* requests have been given up in all."""
        self._wait(lambda: self._abandoned >= number, f"{number} abandoned requests", timeout_s)

    def break_connections(self) -> None:
        """Close each connection there is at its next request, unanswered: nothing shows before that.

        So it looks when a server was replaced behind a service address, which then resets what it does not know.
        """
        with self._lock:
            self._broken_up_to = self._connections

    def start(self) -> Self:
        """Listen, on the same port as before if there was one."""
        started = threading.Event()
        failure: list[BaseException] = []

        async def serve() -> None:
            try:
                server = await asyncio.get_running_loop().create_server(
                    lambda: _Protocol(self._serve_connection, self._transports),
                    "127.0.0.1",
                    self._port,
                    ssl=self._ssl_context,
                    backlog=256,
                )
            except BaseException as exc:
                failure.append(exc)
                raise
            finally:
                started.set()
            self._port = server.sockets[0].getsockname()[1]
            self._loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            listening.set()
            await self._stopping.wait()
            # First no new connections, then an end to those there are, and only then close: asyncio leaks the socket of
            # a connection that it was about to take up when the server was closed.
            for listener in server.sockets:
                self._loop.remove_reader(listener.fileno())
            while self._transports or asyncio.all_tasks() != {asyncio.current_task()}:
                for transport in tuple(self._transports):
                    transport.abort()
                await asyncio.sleep(0)
            server.close()

        def run() -> None:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.get_loop().set_exception_handler(lambda _loop, _context: None)
                runner.run(serve())

        listening = threading.Event()
        self._thread = threading.Thread(target=run, name="fake-prometheus", daemon=True)
        self._thread.start()
        started.wait(10)
        if failure:
            raise RuntimeError(f"fake Prometheus cannot listen on port {self._port}") from failure[0]
        listening.wait(10)
        return self

    def stop(self) -> None:
        """Close the listener and every connection."""
        if self._thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        self._thread = None
        self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.gate.open()
        self.stop()

    def _wait(self, is_reached: Callable[[], bool], what: str, timeout_s: float) -> None:
        with self._lock:
            if not self._lock.wait_for(is_reached, timeout_s):
                raise AssertionError(f"fake Prometheus did not see {what} within {timeout_s} s")

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._lock:
            self._connections += 1
            connection = self._connections
        try:
            while True:
                request = await _read_request(reader, writer, connection)
                if request is None:
                    return
                answer = self._choose(request)
                if not await self._send_unless_abandoned(request, answer, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            writer.transport.abort()

    def _choose(self, request: Request) -> Answer:
        with self._lock:
            self._requests.append(request)
            self._lock.notify_all()
            if request.connection <= self._broken_up_to:
                return Answer(raw=b"")
            refusal = self._refuse(request)
            if refusal is not None:
                return refusal
            if self.everything is not None:
                return self.everything
            answers = self._answers.get(request.query)
            if answers:
                return answers.pop(0) if len(answers) > 1 else answers[0]
            text = f'invalid parameter "query": 1:1: parse error: unknown to the fake: {request.query}'
            return self.unknown or error(400, "bad_data", text)

    def _refuse(self, request: Request) -> Answer | None:
        """Return what a real one answers to a request that is wrong in itself."""
        if request.path != f"{self.prefix}/api/v1/query":
            return page(404, "404 page not found\n")
        if request.method not in {"GET", "POST"}:
            return page(405, "Method Not Allowed\n")
        timeout = request.fields.get("timeout")
        if timeout is not None and not _DURATION.fullmatch(timeout):
            return error(400, "bad_data", f'invalid parameter "timeout": cannot parse "{timeout}" to a valid duration')
        return None

    async def _send_unless_abandoned(
        self, request: Request, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send *answer*; False where the connection is over."""
        sending = asyncio.ensure_future(self._send(request, answer, writer))
        watching = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self._note_abandoned()
                return False
            try:
                return sending.result()
            except ConnectionError:
                self._note_abandoned()
                return False
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)

    def _note_abandoned(self) -> None:
        with self._lock:
            self._abandoned += 1
            self._lock.notify_all()

    async def _send(self, request: Request, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        await self.gate.passed()
        if answer.is_hung:
            await asyncio.Event().wait()
        await asyncio.sleep(answer.delay_s)
        if answer.raw is not None:
            writer.write(answer.raw)
            await writer.drain()
            return False
        body = _encode_body(answer, request)
        writer.write(_encode_head(answer, body))
        if answer.drip_bytes_per_s is not None:
            for index in range(len(body)):
                writer.write(body[index : index + 1])
                await writer.drain()
                await asyncio.sleep(1 / answer.drip_bytes_per_s)
        elif answer.chunk_bytes is not None:
            for start in range(0, len(body), answer.chunk_bytes):
                chunk = body[start : start + answer.chunk_bytes]
                writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        elif answer.cut_after_bytes is not None:
            writer.write(body[: answer.cut_after_bytes])
            await writer.drain()
            writer.close()
            return False
        else:
            writer.write(body)
        await writer.drain()
        if answer.is_closed_after:
            writer.close()
        return not answer.is_closed_after


class _Protocol(asyncio.StreamReaderProtocol):
    """Keeps its transport in a set as long as the connection lasts."""

    def __init__(self, serve: Callable[..., Coroutine[Any, Any, None]], transports: set[asyncio.Transport]) -> None:
        super().__init__(asyncio.StreamReader(), serve)
        self._kept: asyncio.Transport | None = None
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        assert isinstance(transport, asyncio.Transport)
        self._kept = transport
        self._transports.add(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._kept is not None:
            self._transports.discard(self._kept)
        super().connection_lost(exc)


def _success(kind: str, result_at: Callable[[float], object], **members: object) -> Answer:
    def body(request: Request) -> object:
        answer: dict[str, object] = {
            "status": "success",
            "data": {"resultType": kind, "result": result_at(request.time_s)},
        }
        return answer | {name: member for name, member in members.items() if member is not None}

    return Answer(body=body)


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> Request | None:
    try:
        first = await reader.readexactly(1)
        if first == TLS_HANDSHAKE:
            # What Go's net/http says to TLS on a plain port.
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTPS request to an HTTP server.\n")
            await writer.drain()
            return None
        head = first + await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    received_s = time.monotonic()
    request_line, *header_lines = head.decode("latin-1").split("\r\n")
    method, target, _version = request_line.split(" ", 2)
    headers = {}
    for line in header_lines:
        name, colon, text = line.partition(":")
        if colon:
            headers[name.strip().lower()] = text.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    parts = urlsplit(target)
    return Request(
        method=method,
        path=parts.path,
        url_fields=dict(parse_qsl(parts.query, keep_blank_values=True)),
        form=dict(parse_qsl(body.decode(), keep_blank_values=True)) if is_form else {},
        headers=headers,
        connection=connection,
        received_s=received_s,
    )


def _encode_body(answer: Answer, request: Request) -> bytes:
    body = answer.body(request) if callable(answer.body) else answer.body
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return gzip.compress(encoded, 1) if answer.is_gzipped else encoded


def _encode_head(answer: Answer, body: bytes) -> bytes:
    headers = dict(answer.headers)
    if answer.is_gzipped:
        headers["Content-Encoding"] = "gzip"
    if answer.chunk_bytes is not None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(len(body))
    if answer.is_closed_after:
        headers["Connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status} Status", *(f"{name}: {text}" for name, text in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
