"""A fake cluster, a fake backend, and the secure server between them; and connections of one's own to it."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from loadgen.cluster import Credential
from loadgen.parts.process import LOOPBACK
from tests.support.adapter import API, Reply
from tests.support.fake_kube import FakeKube
from tests.support.fake_prometheus import FakePrometheus, vector
from tests.support.secure_server import SecureServer

SERVER_NAME = "adapter.monitoring.svc"
DEPTH = f"{API}/namespaces/default/depth"
SLOW = f"{API}/namespaces/default/slow"
UNGUARDED = {"maxAge": "0s", "lostTargets": "0s"}  # the fake backend answers the rules' own queries alone
RULES = [
    {"name": "depth", "query": "sum(q)", "guards": UNGUARDED},
    {"name": "slow", "query": "sum(slow)", "guards": UNGUARDED},
]


class Stage:
    """A fake cluster, a fake backend, and an adapter between them."""

    def __init__(self, kube: FakeKube, backend: FakePrometheus, server: SecureServer) -> None:
        self.kube = kube
        self.backend = backend
        self.server = server
        self.alice = kube.ca.issue_client("alice", organizations=("team-a",))
        self.proxy = kube.front_proxy_ca.issue_client("front-proxy-client")

    def get(self, path: str, **asked: Any) -> Reply:
        """Ask as alice."""
        return self.server.get(path, **{"credential": self.alice, **asked})

    def ask_as_proxy(self, user: str = "bob", *, proxy: Credential | None = None) -> int:
        """Return the code of an answer to the front proxy that names *user*, 0 without a connection."""
        self.server.hang_up()
        try:
            return self.server.get(DEPTH, credential=proxy or self.proxy, headers={"X-Remote-User": user}).code
        except httpx.TransportError:
            return 0

    def wait_until(self, condition: Callable[[], object], *, timeout_s: float = 20.0) -> None:
        """Return once *condition* is true."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline_s, self.server.read_log()
            time.sleep(0.05)


@contextmanager
def stage(
    folder: Path, *, flags: Sequence[str] = (), rules: Sequence[dict[str, object]] = RULES, **settings: Any
) -> Iterator[Stage]:
    """Provide a stage whose adapter serves."""
    with ExitStack() as stack:
        kube = stack.enter_context(FakeKube())
        backend = stack.enter_context(FakePrometheus())
        backend.set("sum(q)", vector([({}, "5")]))
        backend.set("sum(slow)", vector([({}, "7")]).but(delay_s=1.5))
        config = {"prometheus": {"url": backend.url}, "metrics": list(rules)}
        server = SecureServer(
            config,
            authority=kube.ca,
            server_name=SERVER_NAME,
            kubeconfig=kube.write_kubeconfig(folder),
            flags=flags,
            **settings,
        )
        yield Stage(kube, backend, stack.enter_context(server))


@contextmanager
def connect(server: SecureServer, credential: Credential | None = None) -> Iterator[ssl.SSLSocket]:
    """Provide a connection of one's own, after the handshake."""
    with (
        socket.create_connection((LOOPBACK, server.port), timeout=10) as plain,
        server.build_context(credential).wrap_socket(plain, server_hostname=SERVER_NAME) as tls,
    ):
        yield tls


def read_answer(tls: ssl.SSLSocket, *, has_body: bool = True) -> tuple[bytes, bytes]:
    """Return head and body of the next answer; both empty where the server has ended the connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = tls.recv(65536)
        if not piece:
            return b"", b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while has_body and lengths and len(body) < int(lengths[0]):
        body += tls.recv(65536)
    return head, body
