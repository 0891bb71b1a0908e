"""An exporter of a text file: what stands in it is what Prometheus gets. Edited by hand, it is a queue to play with."""

import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
POLL_S = 0.1


def read_exposition(path: Path) -> bytes:
    """Return the file as it stands, with the line feed at its end that Prometheus insists on.

    Raises: OSError.
    """
    text = path.read_bytes()
    return text if text.endswith(b"\n") else text + b"\n"


def run_text_exporter(path: Path, *, host: str, port: int) -> None:
    """Serve the file at `http://HOST:PORT/metrics`, read anew at every scrape, until SIGTERM or SIGINT.

    A file that can't be read fails the scrape (500): never a number that does not stand there. Neither is it judged
    here: nonsense is Prometheus' to refuse.
    """
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads: they inherit it, and sigwait needs it
    with ThreadingHTTPServer((host, port), _build_handler(path)) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
        serving.start()
        signal.sigwait(ends)
        server.shutdown()
        serving.join()


def _build_handler(path: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404, "Not found", "only /metrics is served")
                return
            try:
                body = read_exposition(path)
            except OSError as exc:
                self.send_error(500, "Not readable", f"{path}: {exc.strerror}")
                return
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            """Say nothing of a scrape each second; the failures are Prometheus' to tell."""

    return Handler
