"""Requests at a fixed rate, however slowly they are answered: from a thread, over a bounded number of connections."""

import asyncio
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import httptools

REQUEST_DEADLINE_S = 30.0
READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request; times are seconds since the load began.

    Attributes:
        scheduled_s: when it was due.
        sent_s: when a connection took it.
        done_s: when its answer was complete, or it had failed.
        code: the HTTP status; 0 where there was none.
        error: what happened instead of an answer; the beginning of the body of one that is not 2xx.
    """

    scheduled_s: float
    sent_s: float
    done_s: float
    code: int
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it was answered with 2xx."""
        return 200 <= self.code < 300


class OpenLoop:
    """Sends *count* GET requests for *url*, *rate_per_s* a second, from when the block is entered.

    A request that finds all *connections* busy waits for one; none is left out, none is tried twice.
    """

    def __init__(
        self, url: str, *, ssl_context: ssl.SSLContext, rate_per_s: float, count: int, connections: int = 16
    ) -> None:
        self._address = urlsplit(url)
        self._ssl_context = ssl_context
        self._times_s = [index / rate_per_s for index in range(count)]
        self._connections = connections
        self._outcomes: list[Outcome] = []
        self._is_ended = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def done(self) -> int:
        """How many requests are over."""
        return len(self._outcomes)

    def wait(self, *, timeout_s: float) -> Sequence[Outcome]:
        """Return all outcomes once the last request is over.

        Raises: TimeoutError after *timeout_s*.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.done} of {len(self._times_s)} requests are over after {timeout_s:g} s")
        return self._outcomes

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_ended = True
        self._thread.join(REQUEST_DEADLINE_S)

    async def _run(self) -> None:
        self._begin_s = time.monotonic()
        due: asyncio.Queue[float | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._connections):
                tasks.create_task(self._work(due))
            for scheduled_s in self._times_s:
                await asyncio.sleep(max(0.0, scheduled_s - self._now_s()))
                if self._is_ended:
                    break
                due.put_nowait(scheduled_s)
            for _ in range(self._connections):
                due.put_nowait(None)

    async def _work(self, due: asyncio.Queue[float | None]) -> None:
        connection: _Connection | None = None
        while (scheduled_s := await due.get()) is not None:
            sent_s = self._now_s()
            try:
                async with asyncio.timeout(REQUEST_DEADLINE_S):
                    if connection is None:
                        connection = await _Connection.open(
                            self._address.hostname or "", self._address.port or 443, self._ssl_context
                        )
                    code, body, is_last = await connection.get(self._address.path)
                text = "" if 200 <= code < 300 else body[:300].decode("utf-8", "replace")
                outcome = Outcome(scheduled_s, sent_s, self._now_s(), code, text)
            except (OSError, EOFError, httptools.HttpParserError) as exc:
                outcome = Outcome(scheduled_s, sent_s, self._now_s(), 0, f"{type(exc).__name__}: {exc}")
                is_last = True
            self._outcomes.append(outcome)
            if is_last and connection is not None:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _now_s(self) -> float:
        return time.monotonic() - self._begin_s


class _Connection:
    """One HTTP/1.1 connection; also the callbacks of its parser."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, host: str, port: int, context: ssl.SSLContext) -> Self:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        return cls(reader, writer, f"{host}:{port}")

    async def get(self, path: str) -> tuple[int, bytes, bool]:
        """Return status, body, and whether the server wants no further request on this connection."""
        self._body = bytearray()
        self._is_complete = False
        parser = httptools.HttpResponseParser(self)
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: application/json\r\n\r\n".encode())
        while not self._is_complete:
            received = await self._reader.read(READ_BYTES)
            if not received:
                raise EOFError("the connection was closed before the answer was complete")
            parser.feed_data(received)
        return parser.get_status_code(), bytes(self._body), not parser.should_keep_alive()

    def close(self) -> None:
        self._writer.close()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._is_complete = True
