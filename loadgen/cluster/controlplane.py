"""A real Kubernetes control plane on loopback: started, asked, disturbed and ended."""

import contextlib
import json
import shutil
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from loadgen.cluster.errors import ClusterFailed, explain_failure
from loadgen.cluster.kubectl import DEADLINE_S, Kubectl, format_documents, write_kubeconfig
from loadgen.cluster.objects import (
    APISERVICE,
    build_api_service,
    build_endpoint_slice,
    build_namespace,
    build_node,
    build_service,
    find_condition,
    has_condition,
)
from loadgen.cluster.pki import CertificateAuthority, create_signing_key, replace_file
from loadgen.cluster.servers import (
    KUBERNETES_SERVICE_IP,
    ApiServer,
    ControllerManager,
    Etcd,
    Kwok,
    PkiFiles,
    Scheduler,
    build_ssl_context,
)
from loadgen.parts.process import LOOPBACK, ServerFailed, ServerProcess

FRONT_PROXY_NAME = "front-proxy-client"
AUTHENTICATION_CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
POLL_S = 0.05
Document = Mapping[str, object]
T = TypeVar("T")


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK, ready when the block is entered.

    Everything listens on 127.0.0.1 on free ports, and ends with the block or with this process. Not thread-safe.

    Args:
        programs: the program of each part; see `loadgen.cluster.programs`.
        hpa_sync_period_s: how often each HPA is evaluated; Kubernetes' own default is 15 s.
        requestheader_allowed_names: common names that an aggregated server shall accept from the front proxy; empty
            for any. The API server's own is `front-proxy-client`.
        apiserver_flags: further flags of kube-apiserver; the last of two equal ones wins.
        controller_manager_flags: the same of kube-controller-manager, such as
            `--horizontal-pod-autoscaler-downscale-stabilization=10s`.
        ready_timeout_s: how long each part may take to get ready.
        keep_logs_in: gets a copy of every log when the block is left, or not entered; None keeps none.
        report: gets one line for each part that is ready.

    Attributes:
        ca: the cluster's authority: verifies the API server, and clients by their certificate.
        front_proxy_ca: the authority of the API server's certificate towards aggregated servers.
        folder: keys and kubeconfigs, while the block runs.
        parts: the running servers by name (`etcd`, `kube-apiserver`, …), to read their logs, pause or kill them.
    """

    def __init__(  # noqa: PLR0913  # by keyword
        self,
        programs: Mapping[str, Path],
        *,
        hpa_sync_period_s: float = 2.0,
        requestheader_allowed_names: Sequence[str] = (FRONT_PROXY_NAME,),
        apiserver_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
        ready_timeout_s: float = 60.0,
        keep_logs_in: Path | None = None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._programs = programs
        self._hpa_sync_period_s = hpa_sync_period_s
        self._requestheader_allowed_names = tuple(requestheader_allowed_names)
        self._apiserver_flags = tuple(apiserver_flags)
        self._controller_manager_flags = tuple(controller_manager_flags)
        self._ready_timeout_s = ready_timeout_s
        self._keep_logs_in = keep_logs_in
        self._report = report
        self._started: dict[str, ServerProcess] = {}
        self._kubeconfigs: dict[tuple[str, tuple[str, ...]], Path] = {}
        self._registered: tuple[str, str] | None = None
        self.parts: Mapping[str, ServerProcess] = MappingProxyType(self._started)
        self.ca = CertificateAuthority.create("cluster-ca")
        self.front_proxy_ca = CertificateAuthority.create("front-proxy-ca")

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        self._kubectl = Kubectl(self._programs["kubectl"], cache_folder=self.folder / "kubectl-cache")
        try:
            with self._explained():
                self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    # The cluster itself

    @property
    def url(self) -> str:
        """Where kube-apiserver answers, the same over restarts; verify it by `ca`."""
        return self._apiserver.url

    def kubeconfig_path(self, user: str = "admin", *, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig for *user*, in *groups*, by a client certificate that is issued when first asked for.

        The user `admin`, without groups named, is in `system:masters` and may do everything.
        """
        if user == "admin" and not groups:
            groups = ("system:masters",)
        wanted = (user, tuple(groups))
        if wanted not in self._kubeconfigs:
            path = self.folder / "kubeconfig" / f"{user.replace(':', '-').replace('/', '-')}.{len(self._kubeconfigs)}"
            path.parent.mkdir(exist_ok=True)
            write_kubeconfig(
                path,
                url=self.url,
                authority_pem=self.ca.certificate_pem,
                credential=self.ca.issue_client(user, organizations=groups),
            )
            self._kubeconfigs[wanted] = path
        return self._kubeconfigs[wanted]

    def kubectl(
        self, *arguments: str, text: str | None = None, kubeconfig: Path | None = None, deadline_s: float = DEADLINE_S
    ) -> CompletedProcess[str]:
        """Run `kubectl ARGUMENTS` as admin, or as *kubeconfig* says, with *text* on its standard input.

        Raises: KubectlFailed with what it said, unless it ended with 0.
        """
        return self._kubectl.run(
            *arguments, kubeconfig=kubeconfig or self.kubeconfig_path(), text=text, deadline_s=deadline_s
        )

    def apply(self, documents: str | Document | Sequence[Document]) -> None:
        """Create or change objects: YAML text, one object, or several.

        Raises: KubectlFailed.
        """
        self.kubectl("apply", "-f", "-", text=format_documents(documents))

    def get(self, path: str) -> dict[str, Any]:
        """Return what the API server answers to admin's GET *path*, such as `/api/v1/nodes`. Faster than kubectl.

        Raises: OSError (urllib.error.HTTPError, with the body as a note, for an answer that is not 2xx).
        """
        answer: dict[str, Any] = json.loads(self._apiserver.request(path, deadline_s=30.0))
        return answer

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the object at *path*, or None where there is none (404)."""
        try:
            return self.get(path)
        except urllib.error.HTTPError as exc:
            if exc.code == 404:
                return None
            raise

    def wait_for(self, look: Callable[[], T | None], *, what: str, timeout_s: float = 30.0) -> T:
        """Call *look* until it returns something true, and return that; an OSError counts as not yet.

        Raises: ClusterFailed naming *what* and the last thing seen, after *timeout_s*.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            last: object
            try:
                last = seen = look()
                if seen:
                    return seen
            except OSError as exc:
                last = " ".join([str(exc), *getattr(exc, "__notes__", [])])
            if time.monotonic() > deadline_s:
                raise ClusterFailed(part="cluster", cause=f"{what}: not within {timeout_s:g} s; last seen: {last}")
            time.sleep(POLL_S)

    # What is in it

    def create_namespace(self, name: str) -> None:
        """Create a namespace, unless it is there."""
        self.apply(build_namespace(name))

    def create_node(
        self,
        name: str,
        *,
        capacity: Mapping[str, str] = MappingProxyType({}),
        labels: Mapping[str, str] = MappingProxyType({}),
        timeout_s: float = 60.0,
    ) -> None:
        """Create a node and return once pods can be scheduled to it.

        *capacity*, such as `{"nvidia.com/gpu": "4"}`, comes on top of 64 CPUs, 256 GiB and room for 1000 pods.

        Raises: KubectlFailed when there is one of that name; ClusterFailed when it is not ready in time.
        """
        self.kubectl("create", "-f", "-", text=format_documents(build_node(name, capacity=capacity, labels=labels)))

        def is_ready() -> bool:
            node = self.get(f"/api/v1/nodes/{name}")
            return has_condition(node, "Ready") and not node["spec"].get("taints")

        self.wait_for(is_ready, what=f"node {name} ready and without taints", timeout_s=timeout_s)

    def token_for(self, service_account: str, *, namespace: str) -> str:
        """Return a token of *service_account*, which is created where it is missing. It is valid for an hour."""
        metadata = {"name": service_account, "namespace": namespace}
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        return self.kubectl("create", "token", service_account, "-n", namespace).stdout.strip()

    # The aggregated server

    def register(self, service: str, *, namespace: str, ports: Sequence[int], ca_bundle: bytes) -> None:
        """Register servers on loopback *ports* as `v1beta1.external.metrics.k8s.io`, behind one service.

        Each needs a serving certificate for `SERVICE.NAMESPACE.svc` that *ca_bundle*, PEM, verifies; see
        `ca.issue_server`. Registering anew changes ports and bundle. See `wait_for_apiservice_available`.
        """
        self.apply([build_namespace(namespace), build_service(service, namespace=namespace)])
        self.set_endpoints(service, namespace=namespace, ports=ports)
        self.apply(build_api_service(service, namespace=namespace, ca_bundle=ca_bundle))
        self._registered = (service, namespace)

    def set_endpoints(self, service: str, *, namespace: str, ports: Sequence[int]) -> None:
        """Send requests for *service* to servers on these loopback *ports* from now on, and to no others."""
        wanted = [build_endpoint_slice(service, namespace=namespace, port=port) for port in ports]
        if wanted:
            self.apply(wanted)
        names = {f"{service}-{port}" for port in ports}
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        present = self.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
        stale = [item["metadata"]["name"] for item in present if item["metadata"]["name"] not in names]
        if stale:
            self.kubectl("delete", "endpointslices", "-n", namespace, *stale)

    def wait_for_apiservice_available(self, timeout_s: float = 30.0) -> None:
        """Return once the API server finds the registered server good: it answers discovery over verified TLS.

        Raises: ClusterFailed with the condition's reason and message.
        """

        def is_available() -> bool:
            api_service = self.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{APISERVICE}")
            if has_condition(api_service, "Available"):
                return True
            condition = find_condition(api_service, "Available") or {}
            raise OSError(f"{condition.get('reason', 'no condition yet')}: {condition.get('message', '')}")

        self.wait_for(is_available, what=f"APIService {APISERVICE} available", timeout_s=timeout_s)

    def unregister(self) -> None:
        """Take back the last `register`: APIService, service and endpoints go, the namespace stays."""
        if self._registered is None:
            return
        service, namespace = self._registered
        self.kubectl("delete", "apiservice", APISERVICE, "--ignore-not-found")
        self.set_endpoints(service, namespace=namespace, ports=())
        self.kubectl("delete", "service", service, "-n", namespace, "--ignore-not-found")
        self._registered = None

    # Disturbances

    def restart_apiserver(self) -> None:
        """Kill kube-apiserver and start it again on its port; return once it is ready.

        A polite end would take a minute: it waits for its clients' watches.
        """
        with self._explained():
            self._apiserver.kill()
            self._apiserver.start()

    def restart_etcd(self) -> None:
        """End etcd and start it again on its port with its data; return once the API server is ready again."""
        with self._explained():
            self._started["etcd"].stop()
            self._started["etcd"].start()
            self._apiserver.wait_until(
                lambda: bool(self._apiserver.request("/readyz")), what="ready again", timeout_s=self._ready_timeout_s
            )

    def rotate_requestheader_ca(self, *, timeout_s: float = 90.0) -> CertificateAuthority:
        """Replace the front proxy's authority and its client certificate, and return the old authority.

        Afterwards the ConfigMap `kube-system/extension-apiserver-authentication` names the new authority alone. The
        API server itself would only ever add to it (so that servers which differ can share it): the old one is
        taken out here, as an administrator has to do.

        Raises: ClusterFailed when the ConfigMap has not changed within *timeout_s*.
        """
        old, self.front_proxy_ca = self.front_proxy_ca, CertificateAuthority.create("front-proxy-ca")
        self._write_front_proxy()
        self.restart_apiserver()
        wanted = self.front_proxy_ca.certificate_pem.decode().strip()

        def is_replaced() -> bool:
            config = self.find(AUTHENTICATION_CONFIG)
            named = "" if config is None else config["data"].get("requestheader-client-ca-file", "").strip()
            if wanted in named and named != wanted:
                patch = json.dumps({"data": {"requestheader-client-ca-file": wanted + "\n"}})
                name = "extension-apiserver-authentication"
                self.kubectl("patch", "configmap", name, "-n", "kube-system", "--type=merge", f"--patch={patch}")
                return False
            return bool(named == wanted)

        self.wait_for(is_replaced, what="the ConfigMap names the new authority alone", timeout_s=timeout_s)
        return old

    def read_log(self, part: str) -> str:
        """Return what *part*, such as `kube-apiserver`, has printed since its first start."""
        return self._started[part].read_log()

    # How it comes and goes

    @property
    def _apiserver(self) -> ApiServer:
        apiserver = self._started.get("kube-apiserver")
        if not isinstance(apiserver, ApiServer):
            raise ClusterFailed(part="kube-apiserver", cause="it was not started")
        return apiserver

    def _start(self) -> None:
        begin_s = time.monotonic()
        pki = self._write_pki()
        admin = self.ca.issue_client("admin", organizations=("system:masters",)).write(self.folder / "pki", "admin")
        ssl_context = build_ssl_context(self.ca, admin)
        limit_s = self._ready_timeout_s

        etcd = Etcd(self._programs["etcd-server"], ready_timeout_s=limit_s)
        self._start_together([etcd], begin_s=begin_s)
        apiserver = ApiServer(
            self._programs["kube-apiserver"],
            etcd_url=etcd.url,
            pki=pki,
            ssl_context=ssl_context,
            requestheader_allowed_names=self._requestheader_allowed_names,
            extra_flags=self._apiserver_flags,
            ready_timeout_s=limit_s,
        )
        self._start_together([apiserver], begin_s=begin_s)
        controllers = ControllerManager(
            self._programs["kube-controller-manager"],
            kubeconfig=self.kubeconfig_path("system:kube-controller-manager"),
            pki=pki,
            ssl_context=ssl_context,
            hpa_sync_period_s=self._hpa_sync_period_s,
            extra_flags=self._controller_manager_flags,
            ready_timeout_s=limit_s,
        )
        scheduler = Scheduler(
            self._programs["kube-scheduler"],
            kubeconfig=self.kubeconfig_path("system:kube-scheduler"),
            pki=pki,
            ssl_context=ssl_context,
            ready_timeout_s=limit_s,
        )
        kwok = Kwok(self._programs["kwok"], kubeconfig=self.kubeconfig_path(), ready_timeout_s=limit_s)
        self._start_together([controllers, scheduler, kwok], begin_s=begin_s)

    def _start_together(self, servers: Sequence[ServerProcess], *, begin_s: float) -> None:
        for server in servers:
            self._started[server.name] = server
        for server in servers:
            server.launch()
        for server in servers:
            server.start()
            self._report(f"{server.name} is ready after {time.monotonic() - begin_s:.1f} s, on port {server.port}")

    def _write_pki(self) -> PkiFiles:
        folder = self.folder / "pki"
        folder.mkdir(mode=0o700)
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        server = self.ca.issue_server(*names, LOOPBACK, KUBERNETES_SERVICE_IP)
        replace_file(folder / "ca.crt", self.ca.certificate_pem)
        replace_file(folder / "service-account.key", create_signing_key(), mode=0o600)
        return PkiFiles(
            cluster_ca=folder / "ca.crt",
            server=server.write(folder, "server"),
            front_proxy_ca=folder / "front-proxy-ca.crt",
            front_proxy=self._write_front_proxy(),
            service_account_key=folder / "service-account.key",
        )

    def _write_front_proxy(self) -> tuple[Path, Path]:
        folder = self.folder / "pki"
        replace_file(folder / "front-proxy-ca.crt", self.front_proxy_ca.certificate_pem)
        return self.front_proxy_ca.issue_client(FRONT_PROXY_NAME).write(folder, "front-proxy")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ServerFailed as exc:
            raise explain_failure(exc) from exc

    def _close(self) -> None:
        """End everything at once: nothing that it holds is needed any more."""
        for server in reversed(self._started.values()):
            server.kill()
        if self._keep_logs_in is not None:
            self._keep_logs_in.mkdir(parents=True, exist_ok=True)
            for server in self._started.values():
                (self._keep_logs_in / f"{server.name}.log").write_text(server.read_log())
        for server in self._started.values():
            server.close()
        shutil.rmtree(self.folder, ignore_errors=True)
