"""A Kubernetes API server for what a real one cannot easily be made to do: silence, errors, broken watches, bad trust.

It serves the ConfigMap `kube-system/extension-apiserver-authentication` (get, list, watch), TokenReview and
SubjectAccessReview, over HTTPS on loopback:

    with FakeKube() as kube:
        kubeconfig = kube.write_kubeconfig(folder)
        kube.fail("access", Fault(is_hung=True))
"""

import base64
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from loadgen.cluster import CertificateAuthority

LOOPBACK = "127.0.0.1"
CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"
FRONT_PROXY_NAME = "front-proxy-client"
Kind = Literal["configmap", "watch", "token", "access"]
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to requests instead: an error, silence until the fault is lifted, or an answer that comes late.

    *is_cut* ends a watch at once, with nothing said.
    """

    status: int = 0
    is_hung: bool = False
    delay_s: float = 0.0
    is_cut: bool = False


class FakeKube:
    """One fake API server.

    Attributes:
        ca: the cluster's authority: of its own certificate, and of its users'.
        front_proxy_ca: the front proxy's authority.
        tokens: the user (as in a TokenReview's status) of each good token.
        may: decides on each SubjectAccessReview's spec.
        asked: the kinds of requests so far, in order.
    """

    def __init__(self) -> None:
        self.ca = CertificateAuthority.create("cluster-ca")
        self.front_proxy_ca = CertificateAuthority.create("front-proxy-ca")
        self.tokens: dict[str, Document] = {}
        self.may: Callable[[Document], bool] = lambda _spec: True
        self.asked: list[str] = []
        self.reviewed: list[Document] = []
        self._changed = threading.Condition()
        self._faults: dict[str, Fault] = {}
        self._version = 1
        self._watches_broken = 0
        self._is_stopping = False
        self._data = self.build_trust()

    # What it says

    def build_trust(self, **changes: str) -> dict[str, str]:
        """Return the ConfigMap's data as a real one has them, with *changes* (`_` for `-` in keys)."""
        return {
            "client-ca-file": self.ca.certificate_pem.decode(),
            "requestheader-client-ca-file": self.front_proxy_ca.certificate_pem.decode(),
            "requestheader-allowed-names": json.dumps([FRONT_PROXY_NAME]),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            **{key.replace("_", "-"): value for key, value in changes.items()},
        }

    def publish(self, data: Mapping[str, str]) -> None:
        """Change the ConfigMap; whoever watches it is told."""
        with self._changed:
            self._data = dict(data)
            self._version += 1
            self._changed.notify_all()

    def fail(self, kind: Kind, fault: Fault) -> None:
        """Answer requests of *kind* with *fault* from now on."""
        with self._changed:
            self._faults[kind] = fault

    def mend(self) -> None:
        """Answer everything well again; what hangs is answered now."""
        with self._changed:
            self._faults.clear()
            self._changed.notify_all()

    def break_watches(self) -> None:
        """End every watch there is, in the middle."""
        with self._changed:
            self._watches_broken += 1
            self._changed.notify_all()

    def count(self, kind: Kind) -> int:
        """Return how many requests of *kind* came."""
        return self.asked.count(kind)

    def wait_for(self, kind: Kind, times: int, *, timeout_s: float = 30.0) -> None:
        """Return once so many requests of *kind* came."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.count(kind) >= times, timeout_s), f"{self.asked=}"

    # How it runs

    @property
    def url(self) -> str:
        """Its base address."""
        return f"https://{LOOPBACK}:{self._server.server_address[1]}"

    def write_kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig that leads here, with a token, and return its path."""
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(self.ca.certificate_pem).decode()}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "adapter", "user": {"token": "the-adapters-own"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "adapter"}}],
            "current-context": "fake",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def __enter__(self) -> Self:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake._answer(self, None)

            def do_POST(self) -> None:
                fake._answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_arguments: object) -> None:
                """Say nothing of clients that went away."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            context.load_cert_chain(*self.ca.issue_server(LOOPBACK, "localhost").write(Path(folder), "kube"))
        self._server = Server((LOOPBACK, 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with self._changed:
            self._is_stopping = True
            self._faults.clear()
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, body: Document | None) -> None:
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        kind = _find_kind(url.path, query)
        with self._changed:
            self.asked.append(kind)
            broken = self._watches_broken  # as of its counting: who waits for the watch may break it at once
            self._changed.notify_all()
            fault = self._faults.get(kind, Fault())
            if fault.is_hung:
                self._changed.wait_for(lambda: self._is_stopping or kind not in self._faults)
        if fault.delay_s:
            time.sleep(fault.delay_s)
        if fault.status:
            _send(handler, fault.status, _build_status(fault.status))
        elif kind == "watch":
            self._watch(handler, query, fault, broken)
        elif kind == "configmap":
            _send(handler, 200, self._build_configmap())
        elif kind == "token":
            _send(handler, 201, self._review_token(body or {}))
        elif kind == "access":
            _send(handler, 201, self._review_access(body or {}))
        else:
            _send(handler, 404, _build_status(404))

    def _watch(self, handler: BaseHTTPRequestHandler, query: Mapping[str, str], fault: Fault, broken: int) -> None:
        ends_s = time.monotonic() + float(query.get("timeoutSeconds", "60"))
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        told = 0
        while not fault.is_cut:
            with self._changed:
                configmap = self._build_configmap() if told != self._version else None
                kind, told = "MODIFIED" if told else "ADDED", self._version
            if configmap is not None:
                handler.wfile.write(json.dumps({"type": kind, "object": configmap}).encode() + b"\n")
                handler.wfile.flush()
            if self._is_watch_over(told, broken, ends_s):
                return

    def _is_watch_over(self, told: int, broken: int, ends_s: float) -> bool:
        """Wait for a version after *told*; return whether the watch's end came before."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_stopping or told != self._version or broken != self._watches_broken,
                max(0.0, ends_s - time.monotonic()),
            )
            return self._is_stopping or broken != self._watches_broken or time.monotonic() >= ends_s

    def _build_configmap(self) -> Document:
        metadata = {"name": NAME, "namespace": "kube-system", "resourceVersion": str(self._version)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._data}

    def _review_token(self, review: Document) -> Document:
        user = self.tokens.get(review["spec"]["token"])
        status: Document = {"authenticated": True, "user": user} if user is not None else {"authenticated": False}
        return {**review, "status": status}

    def _review_access(self, review: Document) -> Document:
        self.reviewed.append(review["spec"])
        is_allowed = self.may(review["spec"])
        return {**review, "status": {"allowed": is_allowed, "reason": "" if is_allowed else "the fake says no"}}


def _find_kind(path: str, query: Mapping[str, str]) -> str:
    if path.startswith(CONFIGMAPS):
        return "watch" if query.get("watch", "").lower() == "true" else "configmap"
    return {
        "/apis/authentication.k8s.io/v1/tokenreviews": "token",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews": "access",
    }.get(path, f"unknown {path}")


def _build_status(code: int) -> Document:
    reason = {403: "Forbidden", 404: "NotFound"}.get(code, "InternalError")
    what = "the fake fails"
    if code == 403:
        what = 'configmaps "x" is forbidden: User "adapter" cannot get resource "configmaps"'
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": what, "reason": reason, "code": code}


def _send(handler: BaseHTTPRequestHandler, code: int, document: Document) -> None:
    body = json.dumps(document).encode()
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
