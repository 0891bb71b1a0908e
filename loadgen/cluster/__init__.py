"""A real Kubernetes control plane on loopback, for `loadgen --cluster local`, end-to-end tests and people."""

from loadgen.cluster.controlplane import PROGRAMS, ControlPlane, ensure_programs, find_programs
from loadgen.cluster.errors import ClusterFailed, KubectlFailed
from loadgen.cluster.pki import CertificateAuthority, Credential

__all__ = [
    "PROGRAMS",
    "CertificateAuthority",
    "ClusterFailed",
    "ControlPlane",
    "Credential",
    "KubectlFailed",
    "ensure_programs",
    "find_programs",
]
