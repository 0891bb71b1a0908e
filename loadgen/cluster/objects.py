"""The Kubernetes objects that a cluster on loopback needs: nodes, and the registration of an aggregated server."""

import base64
from collections.abc import Mapping, Sequence

from loadgen.parts.process import LOOPBACK

Document = dict[str, object]

GROUP = "external.metrics.k8s.io"
VERSION = "v1beta1"
APISERVICE = f"{VERSION}.{GROUP}"
SERVICE_PORT = 443
NODE_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "1000"}


def build_node(name: str, *, capacity: Mapping[str, str], labels: Mapping[str, str]) -> Document:
    """Return a node that offers *capacity*, such as `{"nvidia.com/gpu": "4"}`, beside CPU, memory and room for pods."""
    offered = NODE_CAPACITY | dict(capacity)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok"} | dict(labels)},
        "status": {"capacity": offered, "allocatable": offered},
    }


def build_namespace(name: str) -> Document:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def build_service(name: str, *, namespace: str) -> Document:
    """Return a service without a selector: its endpoints are set by hand."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "https", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": "https"}]},
    }


def build_endpoint_slice(service: str, *, namespace: str, port: int) -> Document:
    """Return an endpoint on loopback.

    Kubernetes refuses loopback addresses of type IPv4 and IPv6. Of type FQDN it checks no more than that there are two
    labels, and the aggregation layer dials what stands there. The port's name must be that of the service's port.
    """
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service}-{port}",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "FQDN",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [LOOPBACK], "conditions": {"ready": True}}],
    }


def build_api_service(service: str, *, namespace: str, ca_bundle: bytes) -> Document:
    """Return the registration of *service* for external metrics; *ca_bundle*, PEM, verifies its certificate."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": APISERVICE},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": service, "namespace": namespace, "port": SERVICE_PORT},
            "caBundle": base64.b64encode(ca_bundle).decode("ascii"),
        },
    }


def build_adapter_rights(service_account: str, *, namespace: str) -> list[Document]:
    """Return what every aggregated server must be granted, for the user that *service_account* is.

    To ask the cluster for reviews, and to read whom its API server lets speak for users.
    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/setup-extension-api-server/
    """
    rbac = "rbac.authorization.k8s.io"
    user = f"system:serviceaccount:{namespace}:{service_account}"
    subjects = [{"kind": "User", "apiGroup": rbac, "name": user}]
    reader = "extension-apiserver-authentication-reader"
    return [
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
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": reader},
            "subjects": subjects,
        },
    ]


def find_condition(document: Mapping[str, object], kind: str) -> Mapping[str, object] | None:
    """Return the condition *kind*, such as `Ready`, from an object's status, or None when it is not set."""
    status = document.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    if not isinstance(conditions, Sequence):
        return None
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def has_condition(document: Mapping[str, object], kind: str) -> bool:
    """Tell whether the condition *kind* of an object is True."""
    condition = find_condition(document, kind)
    return condition is not None and condition.get("status") == "True"
