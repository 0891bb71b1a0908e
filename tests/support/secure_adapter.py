"""The adapter as a cluster runs it: `depthgauge serve --listen`, over TLS, registered behind the aggregation layer.

    with SecureAdapter(control_plane, config) as adapter:
        adapter.register()
        control_plane.kubectl("get", "--raw", f"{API}/namespaces/default/depth")

It is started by its real command with a serving certificate of the cluster's authority for `SERVICE.NAMESPACE.svc`, as
a user who may do no more than an adapter must. Several of them behind one service: start each, then
`first.register(second)`.
"""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx
import pytest
import yaml
from cryptography import x509

from loadgen.cluster import ControlPlane, Credential
from loadgen.parts.process import LOOPBACK, ServerProcess, find_free_port
from tests.support.adapter import API, Reply

SERVICE = "adapter"
NAMESPACE = "monitoring"


class SecureAdapter(ServerProcess):
    """One adapter of *cluster*.

    Args:
        cluster: where it asks who may do what, and whose API server asks it.
        config: its configuration, a document or the text of a file.
        service: the service that it is registered behind; its ServiceAccount has the same name.
        namespace: that service's namespace.
        kubeconfig: who it is to the cluster; None for the ServiceAccount's user with the rights of `grant_rights`.
        shutdown_delay_s: how long it goes on after SIGTERM.
        flags: further options of `depthgauge serve`.
        environment: further environment variables.

    Attributes:
        ops_port: where it serves `/metrics`, `/livez` and `/readyz` over plain HTTP.
        config_path, cert_path, key_path: its files, read again when they change.
    """

    def __init__(
        self,
        cluster: ControlPlane,
        config: Mapping[str, Any] | str,
        *,
        service: str = SERVICE,
        namespace: str = NAMESPACE,
        kubeconfig: Path | None = None,
        shutdown_delay_s: float = 1.0,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.service = service
        self.namespace = namespace
        self.ops_port = find_free_port()
        self._environment = dict(environment or {})
        self._flags = [f"--shutdown-delay={shutdown_delay_s:g}", *flags]
        super().__init__(
            "depthgauge",
            Path(sys.executable).parent / "depthgauge",
            ready_path="/readyz",
            ready_timeout_s=60.0,
            ssl_context=self.build_context(),
        )
        self._kubeconfig = kubeconfig or grant_rights(cluster, service, namespace=namespace)
        self.config_path = self.folder / "config" / "depthgauge.yaml"
        self.config_path.parent.mkdir()
        self.write_config(config)
        self.cert_path, self.key_path = self.write_serving_certificate()
        self._clients: dict[Credential | None, httpx.Client] = {}

    # How it runs

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line of `depthgauge`."""
        return [
            "serve",
            f"--config={self.config_path}",
            f"--listen={LOOPBACK}:{port}",
            f"--tls-cert-file={self.cert_path}",
            f"--tls-key-file={self.key_path}",
            f"--kubeconfig={self._kubeconfig}",
            f"--ops-listen={LOOPBACK}:{self.ops_port}",
            *self._flags,
        ]

    def write_config(self, config: Mapping[str, Any] | str) -> None:
        """Replace the configuration file, atomically."""
        text = config if isinstance(config, str) else yaml.safe_dump(dict(config), sort_keys=False)
        written = self.config_path.with_name(".writing")
        written.write_text(text)
        written.replace(self.config_path)

    def write_serving_certificate(self, credential: Credential | None = None) -> tuple[Path, Path]:
        """Replace the serving certificate and its key by *credential*, by a new one if None; return their paths."""
        credential = credential or self.cluster.ca.issue_server(
            f"{self.service}.{self.namespace}.svc", "localhost", LOOPBACK
        )
        return credential.write(self.folder, "tls")

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        self._running().terminate()

    def wait_for_end(self, *, timeout_s: float = 30.0) -> int:
        """Return the exit code, once it has ended.

        Raises: subprocess.TimeoutExpired.
        """
        process: subprocess.Popen[bytes] = self._process if self._process is not None else self._running()
        return process.wait(timeout=timeout_s)

    def wait_for_log(self, text: str, *, times: int = 1, timeout_s: float = 60.0) -> None:
        """Return once the log contains *text* at least so many times."""
        deadline_s = time.monotonic() + timeout_s
        while self.read_log().count(text) < times:
            assert time.monotonic() < deadline_s, f"{text!r} is not in the log:\n{self.read_log()}"
            time.sleep(0.05)

    # Who asks it through the cluster

    def register(self, *others: "SecureAdapter") -> Self:
        """Register it, and *others* beside it behind the same service, and return once the API server finds it good.

        Undone by `ControlPlane.unregister`, which `close` calls.
        """
        ports = [self.port, *(other.port for other in others)]
        self.cluster.register(
            self.service, namespace=self.namespace, ports=ports, ca_bundle=self.cluster.ca.certificate_pem
        )
        self.cluster.wait_for_apiservice_available()
        return self

    def close(self) -> None:
        """Take its registration back, if there is one, and end it and its clients."""
        for client in self._clients.values():
            client.close()
        super().close()
        self.cluster.unregister()

    # Who asks it directly

    def get(
        self,
        path: str,
        *,
        credential: Credential | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        method: str = "GET",
    ) -> Reply:
        """Return the answer to a raw path, asked over TLS with the client certificate of *credential*, or without.

        Raises: httpx.TransportError, also where the certificate is refused in the handshake.
        """
        if credential not in self._clients:
            self._clients[credential] = httpx.Client(
                verify=self.build_context(credential), trust_env=False, timeout=30.0
            )
        begun_s = time.monotonic()
        response = self._clients[credential].request(method, self.url + path, headers=httpx.Headers(headers))
        took_s = time.monotonic() - begun_s
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return Reply(
            response.status_code, response.headers, json.loads(response.content) if is_json else response.text, took_s
        )

    def ask(
        self,
        metric: str,
        *,
        selector: str = "",
        namespace: str = "default",
        credential: Credential | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """Return the answer to a question about *metric*, asked directly."""
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        path = f"{API}/namespaces/{quote(namespace, safe='')}/{quote(metric, safe='')}{query}"
        return self.get(path, credential=credential, headers=headers)

    def hang_up(self) -> None:
        """Close the connections of `get` and `ask`: the next ones begin with a handshake."""
        while self._clients:
            self._clients.popitem()[1].close()

    def build_context(self, credential: Credential | None = None) -> ssl.SSLContext:
        """Return a context that trusts the cluster's authority and shows the certificate of *credential*, if any."""
        context = ssl.create_default_context(cadata=self.cluster.ca.certificate_pem.decode())
        if credential is not None:
            name = f"client-{x509.load_pem_x509_certificate(credential.certificate_pem).serial_number}"
            context.load_cert_chain(*credential.write(self.folder, name))
        return context

    def fetch_serving_serial(self) -> int:
        """Return the serial number of the certificate that it shows in a new handshake."""
        with (
            socket.create_connection((LOOPBACK, self.port), timeout=10) as plain,
            self.build_context().wrap_socket(plain, server_hostname=f"{self.service}.{self.namespace}.svc") as tls,
        ):
            return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"").serial_number

    def get_ops(self, path: str) -> httpx.Response:
        """Return the answer of the operations port to *path*, such as `/metrics`."""
        return httpx.get(f"http://{LOOPBACK}:{self.ops_port}{path}", trust_env=False, timeout=10)

    def _launch(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value)
            super()._launch()


def grant_rights(cluster: ControlPlane, service_account: str, *, namespace: str) -> Path:
    """Give *service_account* what every aggregated server needs, and return a kubeconfig of its user.

    To ask for reviews (`system:auth-delegator`), and to read whom the API server lets speak for users.
    """
    cluster.create_namespace(namespace)
    user = f"system:serviceaccount:{namespace}:{service_account}"
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]
    rbac = "rbac.authorization.k8s.io"
    cluster.apply(
        [
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{namespace}-{service_account}-auth-delegator"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:auth-delegator"},
                "subjects": subjects,
            },
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"{namespace}-{service_account}-auth-reader", "namespace": "kube-system"},
                "roleRef": {
                    "apiGroup": rbac,
                    "kind": "Role",
                    "name": "extension-apiserver-authentication-reader",
                },
                "subjects": subjects,
            },
        ]
    )
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return cluster.kubeconfig_path(user, groups=groups)
