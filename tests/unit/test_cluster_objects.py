"""What is sent to the cluster and read from it."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from loadgen.cluster import CertificateAuthority
from loadgen.cluster.errors import KubectlFailed, explain_failure
from loadgen.cluster.kubectl import format_documents, write_kubeconfig
from loadgen.cluster.objects import (
    build_api_service,
    build_endpoint_slice,
    build_node,
    build_service,
    find_condition,
    has_condition,
)
from loadgen.parts.process import ServerFailed


def test_endpoint_slice_belongs_to_its_service_and_names_its_port() -> None:
    """The aggregation layer finds an endpoint by the service's label and the port's name."""
    service = build_service("adapter", namespace="monitoring")
    endpoint = build_endpoint_slice("adapter", namespace="monitoring", port=16501)
    assert endpoint["metadata"] == {
        "name": "adapter-16501",
        "namespace": "monitoring",
        "labels": {"kubernetes.io/service-name": "adapter"},
    }
    assert endpoint["ports"] == [{"name": "https", "port": 16501, "protocol": "TCP"}]
    assert service["spec"] == {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}]}


def test_api_service_carries_the_bundle_that_verifies_the_server() -> None:
    """The bundle is base64 of the PEM."""
    spec = build_api_service("adapter", namespace="monitoring", ca_bundle=b"PEM")["spec"]
    assert isinstance(spec, dict)
    assert base64.b64decode(spec["caBundle"]) == b"PEM"
    assert spec["service"] == {"name": "adapter", "namespace": "monitoring", "port": 443}


def test_node_offers_what_is_asked_for_beside_cpu_memory_and_pods() -> None:
    """A node with GPUs alone would run no pod at all."""
    status = build_node("gpu", capacity={"nvidia.com/gpu": "4", "cpu": "2"}, labels={})["status"]
    offered = {"cpu": "2", "memory": "256Gi", "pods": "1000", "nvidia.com/gpu": "4"}
    assert status == {"capacity": offered, "allocatable": offered}


@pytest.mark.parametrize(
    ("document", "is_ready"),
    [
        pytest.param({}, False, id="no status"),
        pytest.param({"status": {"conditions": []}}, False, id="no conditions"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False, id="false"),
        pytest.param({"status": {"conditions": [{"type": "Other", "status": "True"}]}}, False, id="another"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True, id="true"),
    ],
)
def test_condition_holds_only_when_it_is_true(document: dict[str, object], *, is_ready: bool) -> None:
    """What the cluster has not said yet is not so."""
    assert has_condition(document, "Ready") is is_ready


def test_condition_is_found_with_its_reason() -> None:
    """The cause stands in the condition."""
    condition = {"type": "Available", "status": "False", "reason": "MissingEndpoints"}
    assert find_condition({"status": {"conditions": [condition]}}, "Available") == condition


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param({"kind": "Namespace"}, id="one"),
        pytest.param([{"kind": "Namespace"}], id="several"),
    ],
)
def test_documents_become_a_list_that_kubectl_reads(documents: dict[str, object] | list[dict[str, object]]) -> None:
    """One object or several are applied alike."""
    assert json.loads(format_documents(documents)) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"kind": "Namespace"}],
    }


def test_yaml_text_is_passed_on_as_it_is() -> None:
    """What a person wrote is what kubectl gets."""
    assert format_documents("kind: Namespace\n") == "kind: Namespace\n"


def test_kubeconfig_holds_all_that_its_user_needs_and_is_private(tmp_path: Path) -> None:
    """It can be copied anywhere: no other file is named in it."""
    authority = CertificateAuthority.create("test-ca")
    alice = authority.issue_client("alice")
    path = tmp_path / "alice"
    write_kubeconfig(path, url="https://127.0.0.1:6443", authority_pem=authority.certificate_pem, credential=alice)
    config = yaml.safe_load(path.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.certificate_pem
    assert base64.b64decode(user["client-certificate-data"]) == alice.certificate_pem
    assert base64.b64decode(user["client-key-data"]) == alice.key_pem
    assert config["current-context"] == config["contexts"][0]["name"]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("cause", "log", "advice"),
    [
        pytest.param("it ended while waiting for /readyz", "bind: address already in use", "try again", id="port"),
        pytest.param("it ended while waiting for /readyz", "write: no space left on device", "TMPDIR", id="disk"),
        pytest.param("it ended while waiting for /readyz", "too many open files", "ulimit", id="descriptors"),
        pytest.param("cannot run /x/etcd: Exec format error", "", "loadgen parts ensure etcd", id="program"),
        pytest.param("it ended while waiting for /readyz", "", "memory", id="killed"),
        pytest.param("/readyz: not within 60 s", "", "busy", id="slow"),
    ],
)
def test_failed_part_is_explained_with_what_to_do(cause: str, log: str, advice: str) -> None:
    """The error names the part, what happened, the end of its log, and a next step."""
    failure = explain_failure(ServerFailed(name="etcd", cause=cause, log_tail=log))
    assert (failure.part, failure.cause, failure.log_tail) == ("etcd", cause, log)
    assert advice in failure.next_step
    assert all(said in str(failure) for said in ("etcd", cause, log, failure.next_step))


def test_kubectl_error_is_shortened() -> None:
    """A page of HTML from some proxy does not flood the terminal."""
    failure = KubectlFailed(arguments=("get", "pods"), exit_code=1, stderr="x" * 10_000)
    assert len(failure.stderr) == 2000
    assert "kubectl get pods" in str(failure)
