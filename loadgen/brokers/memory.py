"""A queue in this process's memory, whose depth other processes can ask for over HTTP, as they ask a broker."""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One unit of work.

    Attributes:
        number: unique within a run, from 0.
        scheduled_s: when it was due, in seconds since the run began.
        sent_s: when it was put into the queue, on the same clock.
    """

    number: int
    scheduled_s: float
    sent_s: float


class MemoryQueue:
    """Messages in the order in which they came; every change of depth is reported before the next one happens."""

    def __init__(self, name: str, *, on_depth: Callable[[int], None]) -> None:
        self.name = name
        self._messages: deque[Message] = deque()
        self._on_depth = on_depth
        self._lock = threading.Lock()
        on_depth(0)

    @property
    def depth(self) -> int:
        """How many messages wait."""
        with self._lock:
            return len(self._messages)

    def put(self, message: Message) -> None:
        """Add *message* at the end."""
        with self._lock:
            self._messages.append(message)
            self._on_depth(len(self._messages))

    def take(self) -> Message | None:
        """Remove and return the oldest message, or None where nothing waits."""
        with self._lock:
            if not self._messages:
                return None
            message = self._messages.popleft()
            self._on_depth(len(self._messages))
            return message


class DepthServer:
    """Tells other processes the depth of a queue: GET `url` gives `{"queue": "orders", "depth": 3}`."""

    def __init__(self, queue: MemoryQueue) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"queue": queue.name, "depth": queue.depth}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
                """Print nothing: it would tear the live view."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """Where the depth is."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/depth"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
