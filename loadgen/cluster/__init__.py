"""A real Kubernetes control plane on loopback, for `loadgen --cluster local`, end-to-end tests and people."""

from loadgen.cluster.controlplane import ControlPlane
from loadgen.cluster.errors import ClusterFailed, KubectlFailed
from loadgen.cluster.pki import CertificateAuthority, Credential
from loadgen.cluster.programs import PROGRAMS, ensure_programs, find_programs

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
