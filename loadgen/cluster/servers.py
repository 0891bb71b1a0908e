"""The control plane's programs as child processes on loopback: their flags, and when they are ready."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.cluster.pki import CertificateAuthority
from loadgen.parts.process import LOOPBACK, ServerProcess

SERVICE_NETWORK = "10.96.0.0/16"
KUBERNETES_SERVICE_IP = "10.96.0.1"
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc"
NODE_LEASE_S = 40
STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""Which of KWOK's stages apply: nodes and pods become ready at once, nodes renew a lease as real ones do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PkiFiles:
    """Where the servers find keys and certificates, all PEM.

    Attributes:
        cluster_ca: verifies clients of the API server, and its own certificate.
        front_proxy_ca: verifies the API server's client certificate towards aggregated servers.
        server: the serving certificate of all servers here, and its key.
        front_proxy: the API server's client certificate towards aggregated servers, and its key.
        service_account_key: signs the tokens of service accounts.
    """

    cluster_ca: Path
    front_proxy_ca: Path
    server: tuple[Path, Path]
    front_proxy: tuple[Path, Path]
    service_account_key: Path


class Etcd(ServerProcess):
    """Where the cluster's objects are kept, in the server's temporary folder. Without fsync: it need not outlive us."""

    def __init__(self, binary: Path, *, ready_timeout_s: float) -> None:
        super().__init__("etcd", binary, ready_path="/health", ready_timeout_s=ready_timeout_s)

    def build_arguments(self, port: int) -> list[str]:
        """Return etcd's flags; there are no peers, so their port is the kernel's choice."""
        return [
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls=http://{LOOPBACK}:{port}",
            f"--advertise-client-urls=http://{LOOPBACK}:{port}",
            f"--listen-peer-urls=http://{LOOPBACK}:0",
            "--unsafe-no-fsync",
        ]


class ApiServer(ServerProcess):
    """kube-apiserver with RBAC and the aggregation layer.

    Args:
        etcd_url: where objects are kept.
        pki: keys and certificates.
        ssl_context: verifies it, and says who asks when it is polled here.
        requestheader_allowed_names: common names that an aggregated server shall accept from the front proxy; empty
            for any.
        extra_flags: further flags; the last of two equal ones wins.
    """

    def __init__(  # noqa: PLR0913  # by keyword
        self,
        binary: Path,
        *,
        etcd_url: str,
        pki: PkiFiles,
        ssl_context: ssl.SSLContext,
        requestheader_allowed_names: Sequence[str],
        extra_flags: Sequence[str],
        ready_timeout_s: float,
    ) -> None:
        super().__init__(
            "kube-apiserver", binary, ready_path="/readyz", ready_timeout_s=ready_timeout_s, ssl_context=ssl_context
        )
        self._etcd_url = etcd_url
        self._pki = pki
        self._requestheader_allowed_names = tuple(requestheader_allowed_names)
        self._extra_flags = tuple(extra_flags)

    def build_arguments(self, port: int) -> list[str]:
        """Return the API server's flags.

        The ServiceAccount admission plugin is off: it would mount a token into every pod, which no kubelet here reads,
        and refuse pods in the first moments of a namespace. The controller of service accounts, and tokens, work.

        WatchList is off: with an etcd before 3.4.31, as Debian's is, the API server refuses every watch that begins at
        any version. Most clients list instead; KWOK tries again, up to half a minute apart, and pods wait for it.
        """
        pki = self._pki
        return [
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.server[0]}",
            f"--tls-private-key-file={pki.server[1]}",
            f"--client-ca-file={pki.cluster_ca}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--service-account-issuer={SERVICE_ACCOUNT_ISSUER}",
            f"--service-account-key-file={pki.service_account_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            "--disable-admission-plugins=ServiceAccount",
            "--feature-gates=WatchList=false",
            "--endpoint-reconciler-type=none",
            "--enable-aggregator-routing=true",
            f"--proxy-client-cert-file={pki.front_proxy[0]}",
            f"--proxy-client-key-file={pki.front_proxy[1]}",
            f"--requestheader-client-ca-file={pki.front_proxy_ca}",
            f"--requestheader-allowed-names={','.join(self._requestheader_allowed_names)}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            *self._extra_flags,
        ]


class ControllerManager(ServerProcess):
    """kube-controller-manager, the HPA controller among others.

    Args:
        kubeconfig: how it reaches the API server, and who it is.
        pki: keys and certificates.
        ssl_context: verifies it when it is polled here.
        hpa_sync_period_s: how often each HPA is evaluated; Kubernetes' own default is 15 s.
        extra_flags: further flags, such as `--horizontal-pod-autoscaler-tolerance=0.2`; the last of two equal ones
            wins.
    """

    def __init__(  # noqa: PLR0913  # by keyword
        self,
        binary: Path,
        *,
        kubeconfig: Path,
        pki: PkiFiles,
        ssl_context: ssl.SSLContext,
        hpa_sync_period_s: float,
        extra_flags: Sequence[str],
        ready_timeout_s: float,
    ) -> None:
        super().__init__(
            "kube-controller-manager",
            binary,
            ready_path="/healthz",
            ready_timeout_s=ready_timeout_s,
            ssl_context=ssl_context,
        )
        self._kubeconfig = kubeconfig
        self._pki = pki
        self._hpa_sync_period_s = hpa_sync_period_s
        self._extra_flags = tuple(extra_flags)

    def build_arguments(self, port: int) -> list[str]:
        """Return its flags; with its default of 20 requests/s, tests with many HPAs would measure that limit."""
        return [
            *_client_flags(self._kubeconfig),
            *_serving_flags(self._pki, port),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._pki.service_account_key}",
            f"--root-ca-file={self._pki.cluster_ca}",
            "--kube-api-qps=400",
            "--kube-api-burst=400",
            f"--horizontal-pod-autoscaler-sync-period={round(self._hpa_sync_period_s * 1000)}ms",
            *self._extra_flags,
        ]


class Scheduler(ServerProcess):
    """kube-scheduler."""

    def __init__(
        self, binary: Path, *, kubeconfig: Path, pki: PkiFiles, ssl_context: ssl.SSLContext, ready_timeout_s: float
    ) -> None:
        super().__init__(
            "kube-scheduler", binary, ready_path="/healthz", ready_timeout_s=ready_timeout_s, ssl_context=ssl_context
        )
        self._kubeconfig = kubeconfig
        self._pki = pki

    def build_arguments(self, port: int) -> list[str]:
        """Return the scheduler's flags."""
        return [*_client_flags(self._kubeconfig), *_serving_flags(self._pki, port)]


class Kwok(ServerProcess):
    """KWOK in place of kubelets: it marks nodes and pods ready and removes what is deleted. Nothing runs.

    Args:
        binary: the program; the folder `stage` beside it says what ready means.
        kubeconfig: how it reaches the API server, and who it is.
        ready_timeout_s: how long a start may take.
    """

    def __init__(self, binary: Path, *, kubeconfig: Path, ready_timeout_s: float) -> None:
        super().__init__("kwok", binary, ready_path="/healthz", ready_timeout_s=ready_timeout_s)
        self._kubeconfig = kubeconfig

    def build_arguments(self, port: int) -> list[str]:
        """Return KWOK's flags."""
        stages = self.binary.resolve().parent / "stage"
        files = [
            path
            for folder in STAGES
            for path in sorted((stages / folder).glob("*.yaml"))
            if path.name != "kustomization.yaml"
        ]
        return [
            f"--kubeconfig={self._kubeconfig}",
            "--manage-all-nodes",
            f"--server-address={LOOPBACK}:{port}",
            f"--node-lease-duration-seconds={NODE_LEASE_S}",
            *(f"--config={path}" for path in files),
        ]


def build_ssl_context(authority: CertificateAuthority, client: tuple[Path, Path]) -> ssl.SSLContext:
    """Return a context that trusts *authority* alone and shows the certificate of *client* (with its key)."""
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    context.load_cert_chain(*client)
    return context


def _client_flags(kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ]


def _serving_flags(pki: PkiFiles, port: int) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={pki.server[0]}",
        f"--tls-private-key-file={pki.server[1]}",
    ]
