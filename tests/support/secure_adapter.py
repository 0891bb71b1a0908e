"""The adapter as a cluster runs it: `depthgauge serve --listen`, over TLS, registered behind the aggregation layer.

    with SecureAdapter(control_plane, config) as adapter:
        adapter.register()
        control_plane.kubectl("get", "--raw", f"{API}/namespaces/default/depth")

It is started by its real command with a serving certificate of the cluster's authority for `SERVICE.NAMESPACE.svc`, as
a user who may do no more than an adapter must. Several of them behind one service: start each, then
`first.register(second)`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadgen.cluster import ControlPlane
from loadgen.cluster.objects import build_adapter_rights
from tests.support.adapter import API
from tests.support.secure_server import SecureServer

__all__ = ["API", "NAMESPACE", "SERVICE", "SecureAdapter", "grant_rights"]

SERVICE = "adapter"
NAMESPACE = "monitoring"


class SecureAdapter(SecureServer):
    """One adapter of *cluster*; see `SecureServer` for what is not named here.

    Args:
        cluster: where it asks who may do what, and whose API server asks it.
        config: its configuration, a document or the text of a file.
        service: the service that it is registered behind; its ServiceAccount has the same name.
        namespace: that service's namespace.
        kubeconfig: who it is to the cluster; None for the ServiceAccount's user with the rights of `grant_rights`.
        shutdown_delay_s: how long it goes on after SIGTERM.
        flags: further options of `depthgauge serve`.
        environment: further environment variables.
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
        super().__init__(
            config,
            authority=cluster.ca,
            server_name=f"{service}.{namespace}.svc",
            kubeconfig=kubeconfig or grant_rights(cluster, service, namespace=namespace),
            shutdown_delay_s=shutdown_delay_s,
            flags=flags,
            environment=environment,
        )

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
        super().close()
        self.cluster.unregister()


def grant_rights(cluster: ControlPlane, service_account: str, *, namespace: str) -> Path:
    """Give *service_account* what every aggregated server needs, and return a kubeconfig of its user.

    To ask for reviews (`system:auth-delegator`), and to read whom the API server lets speak for users.
    """
    cluster.create_namespace(namespace)
    cluster.apply(build_adapter_rights(service_account, namespace=namespace))
    user = f"system:serviceaccount:{namespace}:{service_account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return cluster.kubeconfig_path(user, groups=groups)
