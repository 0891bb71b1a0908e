"""A cluster's API, as far as the adapter asks it: whom to believe, and who may do what. Everyone may do everything."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from loadgen.cluster import CertificateAuthority

FRONT_PROXY = "front-proxy-client"


class FakeKubeApi:
    """The API over HTTPS on a free loopback port, with the authorities of a cluster; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.ca = CertificateAuthority.create("cluster-ca")
        self.front_proxy_ca = CertificateAuthority.create("front-proxy-ca")
        self.reviews = 0
        self._folder = folder
        self._is_closing = threading.Event()
        self._server = _Server(self)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.ca.issue_server("127.0.0.1").write(folder, "kube-api"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End, watches included."""
        self._is_closing.set()
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig_path(self) -> Path:
        """Write a kubeconfig for this API and return its path."""
        ca_file = self._folder / "cluster-ca.crt"
        ca_file.write_bytes(self.ca.certificate_pem)
        path = self._folder / "kubeconfig"
        url = f"https://127.0.0.1:{self._server.server_address[1]}"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "clusters": [{"name": "bench", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
            "users": [{"name": "bench", "user": {"token": "bench"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def wait_for_end(self, timeout_s: float) -> None:
        """Return after *timeout_s*, or sooner if the API closes."""
        self._is_closing.wait(timeout_s)

    def build_configmap(self) -> dict[str, Any]:
        """Return kube-system/extension-apiserver-authentication."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": self.ca.certificate_pem.decode(),
                "requestheader-client-ca-file": self.front_proxy_ca.certificate_pem.decode(),
                "requestheader-allowed-names": json.dumps([FRONT_PROXY]),
                "requestheader-username-headers": '["X-Remote-User"]',
                "requestheader-uid-headers": '["X-Remote-Uid"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            },
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: FakeKubeApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer the ConfigMap, or a watch in which nothing happens."""
        query = parse_qs(urlsplit(self.path).query)
        if "watch" in query:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.server.api.wait_for_end(float(query.get("timeoutSeconds", ["30"])[0]))
            return
        self._answer(self.server.api.build_configmap(), 200)

    def do_POST(self) -> None:
        """Allow whatever a SubjectAccessReview asks."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.api.reviews += 1
        self._answer({**review, "status": {"allowed": True}}, 201)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def _answer(self, document: dict[str, Any], status: int) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
