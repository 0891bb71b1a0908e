"""The least that an aggregated server of external metrics can be: HTTPS, discovery, one settable number."""

import datetime as dt
import json
import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from loadgen.cluster import Credential

LOOPBACK = "127.0.0.1"
GROUP_PATH = "/apis/external.metrics.k8s.io/v1beta1"
STOP_DEADLINE_S = 10.0


class MetricsStub:
    """Answers whoever asks for any metric with `value`, a Kubernetes quantity; it checks no identity.

    Args:
        credential: its serving certificate and key.
        value: what every metric is.
    """

    def __init__(self, credential: Credential, value: str = "0") -> None:
        self.value = value
        self._credential = credential
        self._asked: list[str] = []

    @property
    def port(self) -> int:
        """The loopback port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def asked(self) -> list[str]:
        """The metrics asked for so far, as `NAMESPACE/METRIC?QUERY`."""
        return list(self._asked)

    def __enter__(self) -> Self:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, document = stub._answer(self.path)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            context.load_cert_chain(*self._credential.write(Path(folder), "stub"))
        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        # The handshake is left to the connection's own thread: a slow client must not keep others from being accepted.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(STOP_DEADLINE_S)
        self._server.server_close()

    def _answer(self, path: str) -> tuple[int, dict[str, object]]:
        if path.rstrip("/") == GROUP_PATH:
            resource = {"name": "x", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
            return 200, {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": "external.metrics.k8s.io/v1beta1",
                "resources": [resource | {"verbs": ["get"]}],
            }
        begin = f"{GROUP_PATH}/namespaces/"
        if path.startswith(begin):
            self._asked.append(path.removeprefix(begin))
            metric = path.removeprefix(begin).partition("?")[0].partition("/")[2]
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            item = {"metricName": metric, "metricLabels": {}, "timestamp": now, "value": self.value}
            return 200, {
                "kind": "ExternalMetricValueList",
                "apiVersion": "external.metrics.k8s.io/v1beta1",
                "metadata": {},
                "items": [item],
            }
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
