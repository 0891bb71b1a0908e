"""The control plane on loopback behaves as a cluster does: the other end-to-end tests rest on it."""

import time
from collections.abc import Iterator

import pytest

from loadgen.cluster import ClusterFailed, ControlPlane, KubectlFailed, find_programs
from tests.support.metrics_stub import MetricsStub

SERVICE = "stub"
NAMESPACE = "stub-registered"
METRIC_PATH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/x"


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"test-{abs(hash(request.node.nodeid)) % 10**8}"
    control_plane.create_namespace(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[str]:
    """A node with room for many pods."""
    control_plane.create_node("plain")
    yield "plain"
    control_plane.kubectl("delete", "node", "plain")


@pytest.fixture
def stub(control_plane: ControlPlane) -> Iterator[MetricsStub]:
    """A server registered for external metrics, found good by the API server."""
    credential = control_plane.ca.issue_server(f"{SERVICE}.{NAMESPACE}.svc")
    with MetricsStub(credential, value="7") as running:
        control_plane.register(
            SERVICE, namespace=NAMESPACE, ports=[running.port], ca_bundle=control_plane.ca.certificate_pem
        )
        control_plane.wait_for_apiservice_available()
        yield running
        control_plane.unregister()


def build_deployment(name: str, *, namespace: str, replicas: int, requests: dict[str, str]) -> dict[str, object]:
    """Return a deployment whose pods ask for *requests*."""
    resources = {"requests": requests, "limits": requests}
    container = {"name": "main", "image": "none", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def count_pods(cluster: ControlPlane, namespace: str, phase: str) -> int:
    """Return how many pods of *namespace* are in *phase*."""
    pods = cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(pod["status"]["phase"] == phase for pod in pods)


def test_cluster_is_ready_within_half_a_minute_and_leaves_nothing_behind() -> None:
    """A second control plane comes up beside the first, on ports of its own, and is gone when its block is left."""
    started_s = time.monotonic()
    with ControlPlane(find_programs()) as cluster:
        took_s = time.monotonic() - started_s
        assert cluster.kubectl("get", "namespace", "default", "-o", "name").stdout == "namespace/default\n"
        processes = list(cluster.parts.values())
        folders = [server.folder for server in processes]
    assert took_s < 30  # 9 s alone on two cores; other work may share them
    assert [server.name for server in processes if server.is_running] == []
    assert [folder for folder in folders if folder.exists()] == []


def test_kubectl_answers_without_a_word_on_stderr(control_plane: ControlPlane) -> None:
    """People and tests see the cluster through kubectl; nothing is wrong with it."""
    done = control_plane.kubectl("api-versions")
    assert "autoscaling/v2" in done.stdout.split()
    assert done.stderr == ""


def test_kubectl_error_tells_the_command_and_what_was_said(control_plane: ControlPlane) -> None:
    """A refused command is an error that can be acted upon."""
    with pytest.raises(KubectlFailed) as caught:
        control_plane.kubectl("get", "pod", "no-such-pod")
    assert caught.value.arguments == ("get", "pod", "no-such-pod")
    assert caught.value.exit_code == 1
    assert 'pods "no-such-pod" not found' in caught.value.stderr


def test_certificate_user_is_judged_by_rbac(control_plane: ControlPlane, namespace: str) -> None:
    """A user by client certificate may do what its group is granted, and nothing else."""
    alice = control_plane.kubeconfig_path("alice", groups=("team-a",))
    with pytest.raises(KubectlFailed) as caught:
        control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=alice)
    assert 'User "alice" cannot list resource "pods"' in caught.value.stderr
    control_plane.kubectl("create", "rolebinding", "team-a", "--clusterrole=view", "--group=team-a", "-n", namespace)
    control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=alice)


def test_service_account_token_is_accepted(control_plane: ControlPlane, namespace: str) -> None:
    """A token from TokenRequest authenticates as its service account."""
    token = control_plane.token_for("scraper", namespace=namespace)
    review = control_plane.kubectl(
        "create", "-o", "jsonpath={.status.user.username}", "-f", "-", text=build_token_review(token)
    )
    assert review.stdout == f"system:serviceaccount:{namespace}:scraper"


def build_token_review(token: str) -> str:
    """Return a TokenReview as YAML."""
    return f"apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {{token: {token}}}\n"


def test_namespace_is_gone_within_half_a_minute_of_its_deletion(control_plane: ControlPlane) -> None:
    """Controllers finish what a deletion starts."""
    control_plane.create_namespace("short-lived")
    control_plane.kubectl("delete", "namespace", "short-lived", "--wait=false")
    control_plane.wait_for(
        lambda: control_plane.find("/api/v1/namespaces/short-lived") is None, what="it is gone", timeout_s=30
    )


def test_pods_run_on_a_node_that_kwok_made_ready(control_plane: ControlPlane, namespace: str, node: str) -> None:
    """A deployment gets its ready replicas, though no container runs anywhere."""
    control_plane.apply(build_deployment("web", namespace=namespace, replicas=3, requests={"cpu": "100m"}))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    control_plane.wait_for(lambda: control_plane.get(path)["status"].get("readyReplicas") == 3, what="3 ready replicas")
    pods = control_plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {node}
    assert "RequestWatchProgress" not in control_plane.read_log("kwok")  # its watches are served, see ApiServer


def test_pods_beyond_the_gpus_stay_pending_and_the_scheduler_says_so(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Of 6 pods that ask for a GPU each, a node with 4 runs 4; the others wait with FailedScheduling."""
    control_plane.create_node("gpu", capacity={"nvidia.com/gpu": "4"})
    try:
        control_plane.apply(
            build_deployment("train", namespace=namespace, replicas=4, requests={"nvidia.com/gpu": "1"})
        )
        control_plane.wait_for(lambda: count_pods(control_plane, namespace, "Running") == 4, what="4 pods running")
        control_plane.kubectl("scale", "deployment/train", "--replicas=6", "-n", namespace)

        def find_refusals() -> set[str]:
            events = control_plane.get(f"/api/v1/namespaces/{namespace}/events")["items"]
            refused = [event for event in events if event["reason"] == "FailedScheduling"]
            assert all("Insufficient nvidia.com/gpu" in event["message"] for event in refused)
            return {event["involvedObject"]["name"] for event in refused}

        control_plane.wait_for(lambda: len(find_refusals()) == 2, what="two pods refused by the scheduler")
        assert count_pods(control_plane, namespace, "Running") == 4
        assert count_pods(control_plane, namespace, "Pending") == 2
    finally:
        control_plane.kubectl("delete", "node", "gpu")


@pytest.mark.parametrize(
    "restart", [pytest.param("restart_apiserver", id="apiserver"), pytest.param("restart_etcd", id="etcd")]
)
def test_restarted_part_keeps_address_and_data(control_plane: ControlPlane, namespace: str, restart: str) -> None:
    """What was stored before a restart is there after it, at the same address, and controllers go on."""
    url = control_plane.url
    control_plane.kubectl("create", "configmap", "kept", "-n", namespace, "--from-literal=depth=3")
    getattr(control_plane, restart)()
    assert control_plane.url == url
    assert control_plane.get(f"/api/v1/namespaces/{namespace}/configmaps/kept")["data"] == {"depth": "3"}
    control_plane.apply(build_deployment("after", namespace=namespace, replicas=2, requests={}))
    control_plane.wait_for(
        lambda: count_pods(control_plane, namespace, "Pending") == 2, what="controllers create pods again"
    )


@pytest.mark.usefixtures("stub")
def test_rotated_front_proxy_authority_alone_is_published(control_plane: ControlPlane) -> None:
    """Aggregated servers are told of the new authority, no longer of the old one, and are still asked."""
    old = control_plane.rotate_requestheader_ca()
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    published = control_plane.get(path)["data"]["requestheader-client-ca-file"]
    assert published.strip().encode() == control_plane.front_proxy_ca.certificate_pem.strip()
    assert old.certificate_pem != control_plane.front_proxy_ca.certificate_pem
    control_plane.wait_for_apiservice_available()
    assert control_plane.wait_for(lambda: control_plane.get(METRIC_PATH), what="an answer through the aggregator")


def test_registered_server_is_asked_through_the_aggregation_layer(
    control_plane: ControlPlane, stub: MetricsStub
) -> None:
    """What the registered server answers is what kubectl prints."""
    said = control_plane.kubectl("get", "--raw", METRIC_PATH).stdout
    assert '"value": "7"' in said
    assert stub.asked[-1] == "default/x"


@pytest.mark.usefixtures("stub")
def test_endpoints_decide_which_server_is_asked(control_plane: ControlPlane) -> None:
    """Another port in the endpoints is another server asked, that one alone, soon and without a restart."""
    credential = control_plane.ca.issue_server(f"{SERVICE}.{NAMESPACE}.svc")
    with MetricsStub(credential, value="8") as other:
        control_plane.set_endpoints(SERVICE, namespace=NAMESPACE, ports=[other.port])
        control_plane.wait_for(
            lambda: {control_plane.get(METRIC_PATH)["items"][0]["value"] for _ in range(20)} == {"8"},
            what="the other server's answer, 20 times of 20",
            timeout_s=10,
        )


def test_server_with_another_services_certificate_is_refused_with_the_cause(control_plane: ControlPlane) -> None:
    """A wrong name in the certificate leaves the APIService unavailable, and the error says why."""
    with MetricsStub(control_plane.ca.issue_server("another.somewhere.svc")) as impostor:
        control_plane.register(
            SERVICE, namespace=NAMESPACE, ports=[impostor.port], ca_bundle=control_plane.ca.certificate_pem
        )
        try:
            with pytest.raises(ClusterFailed) as caught:
                control_plane.wait_for_apiservice_available(timeout_s=5)
        finally:
            control_plane.unregister()
    assert "certificate is valid for another.somewhere.svc, not stub.stub-registered.svc" in caught.value.cause


@pytest.mark.usefixtures("node")
def test_hpa_reads_the_registered_server_and_scales(
    control_plane: ControlPlane, stub: MetricsStub, namespace: str
) -> None:
    """The real HPA controller gets its number from the registered server: 7 with a target of 2 each is 4 replicas."""
    control_plane.apply(build_deployment("worker", namespace=namespace, replicas=1, requests={}))
    target = {"type": "AverageValue", "averageValue": "2"}
    control_plane.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "worker", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"},
                "minReplicas": 1,
                "maxReplicas": 10,
                "metrics": [{"type": "External", "external": {"metric": {"name": "x"}, "target": target}}],
            },
        }
    )
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/worker"
    control_plane.wait_for(
        lambda: control_plane.get(path).get("status", {}).get("desiredReplicas") == 4, what="4 desired replicas"
    )
    control_plane.wait_for(lambda: count_pods(control_plane, namespace, "Running") == 4, what="4 pods running")
    assert f"{namespace}/x" in stub.asked
