"""A registered adapter to play with: exporter of a text file, Prometheus, adapter, and an HPA that follows."""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.error import HTTPError

from loadgen.cluster.controlplane import ControlPlane
from loadgen.cluster.errors import ClusterFailed, KubectlFailed, explain_failure
from loadgen.cluster.example import (
    NAMESPACE,
    SERIES,
    build_autoscaler,
    build_deployment,
    build_depths,
    build_path,
    build_rules,
)
from loadgen.cluster.objects import build_adapter_rights, build_namespace
from loadgen.cluster.pki import replace_file
from loadgen.parts import PartUnavailable, ensure_part, find_part
from loadgen.parts.process import LOG_TAIL_LINES, LOOPBACK, ServerFailed, ServerProcess
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from loadgen.servers import SecureAdapterProcess, TextExporterProcess, find_adapter

DEPTHS_FILE = "metrics.prom"
RULES_FILE = "depthgauge.yaml"
ADAPTER = "adapter"
ADAPTER_NAMESPACE = "monitoring"
NODE = "node-1"
SCRAPE_INTERVAL_S = 1.0
FIRST_VALUE_DEADLINE_S = 30.0
S = TypeVar("S", bound=ServerProcess)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundPrograms:
    """The programs that it needs beside those of the control plane."""

    prometheus: Path
    adapter: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundPlaces:
    """Where to touch it, all as text.

    Attributes:
        depths: the file that the exporter serves.
        rules: the adapter's configuration.
        adapter_log: what the adapter says.
        prometheus_url: Prometheus, for a browser.
        ops_url: the adapter's own metrics and probes, without authentication.
    """

    depths: str
    rules: str
    adapter_log: str
    prometheus_url: str
    ops_url: str


def find_playground_programs() -> PlaygroundPrograms:
    """Return the programs. No network.

    Raises: PartUnavailable naming the first that is missing, and the command that provides it.
    """
    prometheus = find_part("prometheus")
    if prometheus is None:
        raise PartUnavailable(part="prometheus", cause="missing", next_step="run: loadgen parts ensure prometheus")
    adapter = find_adapter()
    if adapter is None:
        raise PartUnavailable(part="depthgauge", cause="the command is missing", next_step="run: scripts/setup")
    return PlaygroundPrograms(prometheus=prometheus, adapter=adapter)


def ensure_playground_programs(report: Callable[[str], None]) -> PlaygroundPrograms:
    """Return the programs, provided where missing.

    Raises: PartUnavailable with what to do next.
    """
    ensure_part("prometheus", report=report)
    return find_playground_programs()


class Playground:
    """Entering the block starts it in a running control plane, and returns once the HPA gets a number; leaving ends it.

    Args:
        cluster: where the adapter is registered.
        programs: see `find_playground_programs`.
        folder: gets the files that people edit, `metrics.prom` and `depthgauge.yaml`, and logs in `logs`.
        report: gets one line for each part that is ready.

    Attributes:
        servers: the processes, in the order of the chain.
    """

    def __init__(
        self, cluster: ControlPlane, *, programs: PlaygroundPrograms, folder: Path, report: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._programs = programs
        self._folder = folder
        self._report = report
        self._running = contextlib.ExitStack()
        self.servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as starting, _explained(self._cluster):
            self._start(starting)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running.close()

    @property
    def places(self) -> PlaygroundPlaces:
        """Where to touch it, while it runs."""
        return PlaygroundPlaces(
            depths=str(self._folder / DEPTHS_FILE),
            rules=str(self._folder / RULES_FILE),
            adapter_log=str(self._adapter.log_path),
            prometheus_url=self._prometheus.url,
            ops_url=f"http://{LOOPBACK}:{self._adapter.ops_port}",
        )

    def _start(self, stack: contextlib.ExitStack) -> None:
        begin_s = time.monotonic()
        cluster = self._cluster

        def await_ready(server: ServerProcess) -> None:
            server.start()
            self._report(f"{server.name} is ready after {time.monotonic() - begin_s:.1f} s, on port {server.port}")

        replace_file(self._folder / DEPTHS_FILE, build_depths().encode())
        exporter = self._launch(stack, TextExporterProcess(self._folder / DEPTHS_FILE))
        rights = build_adapter_rights(ADAPTER, namespace=ADAPTER_NAMESPACE)
        cluster.apply([build_namespace(ADAPTER_NAMESPACE), build_namespace(NAMESPACE), *rights])
        await_ready(exporter)
        job = ScrapeJob(name="queue-exporter", targets=(f"{LOOPBACK}:{exporter.port}",))
        self._prometheus = self._launch(
            stack, Prometheus(self._programs.prometheus, jobs=[job], scrape_interval_s=SCRAPE_INTERVAL_S)
        )
        await_ready(self._prometheus)
        replace_file(self._folder / RULES_FILE, build_rules(self._prometheus.url).encode())
        self._adapter = self._launch(stack, self._build_adapter())
        cluster.create_node(NODE)
        cluster.apply(build_deployment())
        await_ready(self._adapter)
        authority = cluster.ca.certificate_pem
        cluster.register(ADAPTER, namespace=ADAPTER_NAMESPACE, ports=[self._adapter.port], ca_bundle=authority)
        with _blamed_on(self._adapter):
            cluster.wait_for_apiservice_available()
        self._prometheus.wait_for(SERIES, timeout_s=FIRST_VALUE_DEADLINE_S)
        with _blamed_on(self._adapter):
            cluster.wait_for(
                lambda: cluster.get(build_path())["items"],
                what="a number from the adapter, through the API server",
                timeout_s=FIRST_VALUE_DEADLINE_S,
            )
        cluster.apply(build_autoscaler())
        self._report(f"the adapter is registered and answers after {time.monotonic() - begin_s:.1f} s")

    def _build_adapter(self) -> SecureAdapterProcess:
        cluster = self._cluster
        serving = cluster.ca.issue_server(f"{ADAPTER}.{ADAPTER_NAMESPACE}.svc", "localhost", LOOPBACK)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{ADAPTER_NAMESPACE}")
        user = f"system:serviceaccount:{ADAPTER_NAMESPACE}:{ADAPTER}"
        return SecureAdapterProcess(
            self._programs.adapter,
            config=self._folder / RULES_FILE,
            kubeconfig=cluster.kubeconfig_path(user, groups=groups),
            serving=serving.write(cluster.folder / "pki", "adapter"),
            ssl_context=ssl.create_default_context(cadata=cluster.ca.certificate_pem.decode()),
        )

    def _launch(self, stack: contextlib.ExitStack, server: S) -> S:
        """Start *server*, with its log where people find it, and do not wait; it ends with *stack*, at once."""
        stack.callback(server.close)
        stack.callback(server.kill)
        self.servers.append(server)
        server.log_path = self._folder / "logs" / f"{server.name}.log"
        server.log_path.parent.mkdir(parents=True, exist_ok=True)
        server.log_path.unlink(missing_ok=True)
        server.launch()
        return server


@contextlib.contextmanager
def _blamed_on(server: ServerProcess) -> Iterator[None]:
    """Have what the cluster misses told as a failure of *server*, with the end of its log."""
    try:
        yield
    except ClusterFailed as exc:
        raise ClusterFailed(
            part=server.name, cause=exc.cause, log_tail=_find_tail(server), next_step="its log says why"
        ) from exc


@contextlib.contextmanager
def _explained(cluster: ControlPlane) -> Iterator[None]:
    """Name the part and quote its log, whatever fails."""
    try:
        yield
    except ServerFailed as exc:
        raise explain_failure(exc) from exc
    except (KubectlFailed, HTTPError) as exc:
        server = cluster.parts["kube-apiserver"]
        raise ClusterFailed(
            part=server.name, cause=str(exc), log_tail=_find_tail(server), next_step="its log may say why"
        ) from exc


def _find_tail(server: ServerProcess) -> str:
    return "\n".join(server.read_log().splitlines()[-LOG_TAIL_LINES:])
