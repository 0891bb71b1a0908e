"""An exporter whose text a test sets: served over real HTTP, stopped and started again on the same port."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
STOP_DEADLINE_S = 10.0


class Exporter:
    """Serves a settable text at /metrics, from a thread, on a free loopback port.

    `stop()` closes the socket, so that a scrape is refused as from a dead exporter.
    """

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._port = 0
        self._scrapes = 0
        self._scraped = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def target(self) -> str:
        """Address for a scrape job, such as 127.0.0.1:41234; the same over restarts."""
        assert self._port, "the exporter was never started"
        return f"{LOOPBACK}:{self._port}"

    @property
    def url(self) -> str:
        """Where the text is."""
        return f"http://{self.target}/metrics"

    @property
    def scrapes(self) -> int:
        """How many scrapes were answered so far."""
        with self._scraped:
            return self._scrapes

    def set(self, text: str) -> None:
        """Serve *text*, in Prometheus' text format, from the next scrape on."""
        self._text = text

    def start(self) -> Self:
        """Listen; on the port used before, if there was one."""
        assert self._server is None, "the exporter is running already"
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter._text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                exporter._count()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
                """Keep the tests' output free of a line for each scrape."""

        self._server = ThreadingHTTPServer((LOOPBACK, self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the socket; connections are refused from now on. Nothing happens when it is not running."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(STOP_DEADLINE_S)
        self._server = self._thread = None

    def wait_for_scrapes(self, count: int, *, timeout_s: float = 10.0) -> None:
        """Return once *count* more scrapes were answered; TimeoutError after *timeout_s*."""
        with self._scraped:
            goal = self._scrapes + count
            if not self._scraped.wait_for(lambda: self._scrapes >= goal, timeout_s):
                raise TimeoutError(f"{goal - self._scrapes} of {count} scrapes missing after {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _count(self) -> None:
        with self._scraped:
            self._scrapes += 1
            self._scraped.notify_all()
