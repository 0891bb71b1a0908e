"""Everything behind and around the two servers: Prometheus with its exporter, the cluster's API, certificates."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.kube_api import FRONT_PROXY, FakeKubeApi
from bench.questions import METRICS, QUEUES, build_exposition, build_head
from bench.servers import TlsFiles
from loadgen.cluster import CertificateAuthority, ControlPlane, find_programs
from loadgen.parts import find_part
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.fake_prometheus import FakePrometheus, vector

RBAC = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "external-metrics-reader"},
        "rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "hpa-reads-external-metrics"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "external-metrics-reader",
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"},
        ],
    },
]


@dataclass(frozen=True, slots=True)
class Backend:
    """A Prometheus at *url*; *count_queries* returns how many queries it has been asked so far."""

    kind: str
    url: str
    count_queries: Callable[[], int]


@contextlib.contextmanager
def start_backend() -> Iterator[Backend]:
    """Start a real Prometheus that has scraped all series, or the tests' fake where the program is missing."""
    binary = find_part("prometheus")
    if binary is None:
        with FakePrometheus() as fake:
            fake.set("sum by (queue) (bench_queue_length)", vector([({"queue": "orders"}, "52443")]))
            for number in range(METRICS):
                series = [({"queue": f"q{queue}"}, f"{1000 * number + queue}.5") for queue in range(QUEUES)]
                fake.set(f"sum by (queue) (bench_depth_{number})", vector(series))
            yield Backend("fake", fake.url, lambda: len(fake.requests))
        return
    with (
        _start_exporter() as address,
        Prometheus(binary, jobs=[ScrapeJob(name="bench", targets=(address,))]) as prometheus,
    ):
        prometheus.wait_for(f"bench_depth_{METRICS - 1}")
        version = json.loads(prometheus.request("/api/v1/status/buildinfo"))["data"]["version"]
        yield Backend(f"Prometheus {version}", prometheus.url, lambda: _count(prometheus))


def _count(prometheus: Prometheus) -> int:
    name = 'prometheus_http_requests_total{code="200",handler="/api/v1/query"}'
    lines = prometheus.request("/metrics").decode().splitlines()
    return next((int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name)), 0)


@contextlib.contextmanager
def _start_exporter() -> Iterator[str]:
    body = build_exposition().encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the adapter asks for reviews, and the certificates of that cluster."""

    kind: str
    kubeconfig: Path
    tls: TlsFiles


@contextlib.contextmanager
def start_cluster(folder: Path, *, is_real: bool) -> Iterator[Cluster]:
    """Start a real control plane, or a fake API that allows everything."""
    if not is_real:
        with FakeKubeApi(folder) as api:
            yield Cluster("fake API", api.kubeconfig_path(), _issue(folder, api))
        return
    with ControlPlane(find_programs()) as plane:
        plane.apply(RBAC)
        yield Cluster("real control plane", plane.kubeconfig_path(), _issue(folder, plane))


def _issue(folder: Path, cluster: Any) -> TlsFiles:  # noqa: ANN401 - anything with the two authorities
    ca: CertificateAuthority = cluster.ca
    front_proxy_ca: CertificateAuthority = cluster.front_proxy_ca
    server_ca, client_cas = folder / "serving-ca.crt", folder / "client-cas.crt"
    server_ca.write_bytes(ca.certificate_pem)
    client_cas.write_bytes(front_proxy_ca.certificate_pem + ca.certificate_pem)
    server_cert, server_key = ca.issue_server("127.0.0.1", "depthgauge.monitoring.svc").write(folder, "serving")
    client_cert, client_key = front_proxy_ca.issue_client(FRONT_PROXY).write(folder, "front-proxy")
    return TlsFiles(server_cert, server_key, server_ca, client_cert, client_key, client_cas)


Answer = tuple[int, list[tuple[str, str]], str]
"""Status, headers, body."""

_PATIENCE_S = 15.0


class Client:
    """Asks one server over one connection, as the aggregator does."""

    def __init__(self, port: int, tls: TlsFiles) -> None:
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=tls.build_client_context(), timeout=10
        )

    def fetch_wanted(self, target: str, status: int) -> Answer:
        """Return the answer to *target* as soon as it has *status*: the first tick may lie before the first sample.

        Raises: RuntimeError after a while, with the last answer.
        """
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            answer = self.fetch(target)
            if answer[0] == status:
                return answer
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{target} is not answered with {status}: {answer[0]} {answer[2]}")
            time.sleep(0.1)

    def fetch(self, target: str) -> Answer:
        """Return the answer to *target*; what uvicorn itself adds is left out."""
        lines = build_head(target).splitlines()[1:]
        self._connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
        for name, _, value in (line.partition(": ") for line in lines):
            self._connection.putheader(name, value)
        self._connection.endheaders()
        answer = self._connection.getresponse()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() != "date"]
        return answer.status, kept, answer.read().decode()
