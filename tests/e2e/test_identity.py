"""Who may ask the adapter, in a real cluster: each identity, and trust that changes while it serves."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Self

import httpx
import pytest

from loadgen.cluster import CertificateAuthority, ControlPlane, Credential, KubectlFailed
from tests.support.adapter import API, Reply
from tests.support.fake_prometheus import FakePrometheus, vector
from tests.support.secure_adapter import SecureAdapter

NAMESPACE = "identity"
ADAPTER_NAMESPACE = "identity-adapter"
METRIC_PATH = f"{API}/namespaces/{NAMESPACE}/depth"
SPOOF = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


@pytest.fixture(scope="module")
def adapter(control_plane: ControlPlane) -> Iterator[SecureAdapter]:
    """An adapter with one metric, `depth`, that is 5, registered and found good."""
    control_plane.create_namespace(NAMESPACE)
    with FakePrometheus() as fake:
        fake.set("sum(q)", vector([({}, "5")]))
        guards = {"maxAge": "0s", "lostTargets": "0s"}  # the fake answers the rule's own query alone
        config = {"prometheus": {"url": fake.url}, "metrics": [{"name": "depth", "query": "sum(q)", "guards": guards}]}
        with SecureAdapter(control_plane, config, namespace=ADAPTER_NAMESPACE) as running:
            running.register()
            yield running


@pytest.fixture
def reader(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A user who may list metrics in the namespace, and nothing else."""
    user = f"reader-{abs(hash(request.node.nodeid)) % 10**8}"
    control_plane.apply(
        [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": user, "namespace": NAMESPACE},
                "rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["depth"], "verbs": ["list"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": user, "namespace": NAMESPACE},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
            },
        ]
    )
    yield user
    control_plane.kubectl("delete", "role,rolebinding", user, "-n", NAMESPACE)


def check_denied(reply: Reply, user: str) -> None:
    """Check that *reply* refuses *user* by name, with verb and resource."""
    assert reply.code == 403, reply.document
    assert reply.reason == "Forbidden"
    assert f'User "{user}" cannot list resource "depth"' in reply.message
    assert f'in the namespace "{NAMESPACE}"' in reply.message


def ask_through_cluster(cluster: ControlPlane, user: str) -> str:
    """Return what kubectl prints for *user* about the metric; raises KubectlFailed."""
    return cluster.kubectl("get", "--raw", METRIC_PATH, kubeconfig=cluster.kubeconfig_path(user)).stdout


def test_admin_reads_a_value_through_the_cluster(control_plane: ControlPlane, adapter: SecureAdapter) -> None:
    """The whole way: kubectl, kube-apiserver's front proxy, adapter, backend."""
    assert adapter.is_running
    assert '"value":"5"' in ask_through_cluster(control_plane, "admin")


def test_spoofed_user_without_a_certificate_is_nobody(adapter: SecureAdapter) -> None:
    """Headers alone are believed from no one; the health paths are open, discovery is not."""
    for path in (METRIC_PATH, "/apis", API, "/openapi/v2", "/version", "/nothing"):
        reply = adapter.get(path, headers=SPOOF)
        assert (reply.code, reply.reason) == (401, "Unauthenticated"), path
    for path in ("/livez", "/readyz", "/healthz"):
        assert adapter.get(path).code == 200  # A10


def test_spoofed_user_beside_a_users_certificate_is_ignored(
    control_plane: ControlPlane, adapter: SecureAdapter
) -> None:
    """The certificate's own user is judged, here one who may not; also with the front proxy's own name."""
    for name in ("mallory", "front-proxy-client"):
        credential = control_plane.ca.issue_client(name)
        check_denied(adapter.get(METRIC_PATH, credential=credential, headers=SPOOF), name)


def test_front_proxy_of_another_name_is_nobody(control_plane: ControlPlane, adapter: SecureAdapter) -> None:
    """The authority is right, the name is not among the allowed ones."""
    credential = control_plane.front_proxy_ca.issue_client("another-proxy")
    reply = adapter.get(METRIC_PATH, credential=credential, headers=SPOOF)
    assert (reply.code, reply.reason) == (401, "Unauthenticated")


def test_front_proxys_own_certificate_is_believed(control_plane: ControlPlane, adapter: SecureAdapter) -> None:
    """What kube-apiserver shows; the user it names is judged."""
    proxy = control_plane.front_proxy_ca.issue_client("front-proxy-client")
    assert adapter.get(METRIC_PATH, credential=proxy, headers=SPOOF).code == 200
    check_denied(adapter.get(METRIC_PATH, credential=proxy, headers={"X-Remote-User": "bob"}), "bob")
    assert adapter.get(METRIC_PATH, credential=proxy).code == 401


def test_certificate_of_a_stranger_gets_no_connection(adapter: SecureAdapter) -> None:
    """An authority that the cluster does not know is refused in the handshake."""
    stranger = CertificateAuthority.create("front-proxy-ca").issue_client("front-proxy-client")
    with pytest.raises(httpx.TransportError):
        adapter.get(METRIC_PATH, credential=stranger, headers=SPOOF)


@pytest.mark.usefixtures("adapter")
def test_a5_user_without_rights_is_told_user_verb_and_resource(control_plane: ControlPlane) -> None:
    """Through kubectl, as an administrator sees it."""
    with pytest.raises(KubectlFailed) as caught:
        ask_through_cluster(control_plane, "carol")
    assert 'User "carol" cannot list resource "depth" in API group "external.metrics.k8s.io"' in caught.value.stderr
    assert "Forbidden" in caught.value.stderr


def test_a5_user_with_a_binding_reads_that_metric_and_no_other(
    control_plane: ControlPlane, adapter: SecureAdapter, reader: str
) -> None:
    """Through the cluster and directly, in the bound namespace and not in another."""
    assert '"value":"5"' in ask_through_cluster(control_plane, reader)
    credential = control_plane.ca.issue_client(reader)
    assert adapter.get(METRIC_PATH, credential=credential).values == ["5"]
    assert adapter.ask("depth", namespace="default", credential=credential).code == 403
    assert adapter.ask("other", namespace=NAMESPACE, credential=credential).code == 403
    denied = adapter.get(METRIC_PATH, credential=credential, method="DELETE")
    assert denied.code == 403
    assert f'User "{reader}" cannot delete resource "depth"' in denied.message


def test_service_accounts_token_is_reviewed(control_plane: ControlPlane, adapter: SecureAdapter) -> None:
    """A TokenRequest's token, sent directly: 403 without rights, 200 with them, 401 for what is no token."""
    user = f"system:serviceaccount:{NAMESPACE}:scraper"
    headers = {"Authorization": f"Bearer {control_plane.token_for('scraper', namespace=NAMESPACE)}"}
    check_denied(adapter.get(METRIC_PATH, headers=headers), user)
    # The group of all ServiceAccounts of the namespace is what the review says besides the name.
    control_plane.kubectl(
        "create", "clusterrole", "metrics-reader", "--verb=list", "--resource=*.external.metrics.k8s.io"
    )
    control_plane.kubectl(
        "create",
        "rolebinding",
        "scrapers",
        "-n",
        NAMESPACE,
        "--clusterrole=metrics-reader",
        f"--group=system:serviceaccounts:{NAMESPACE}",
    )
    control_plane.wait_for(
        lambda: adapter.get(METRIC_PATH, headers=headers).code == 200, what="the binding counts", timeout_s=20
    )
    assert adapter.get(METRIC_PATH, headers={"Authorization": "Bearer not-a-token"}).code == 401
    assert adapter.get(METRIC_PATH, headers={**headers, **SPOOF}).code == 200
    assert adapter.get(f"{API}/namespaces/default/depth", headers={**headers, **SPOOF}).code == 403


class Load:
    """Asks through kube-apiserver without a pause, from several threads, until the block ends."""

    def __init__(self, cluster: ControlPlane, *, threads: int = 2) -> None:
        self.answers: list[str] = []
        self._cluster = cluster
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def _ask(self) -> None:
        while not self._done.is_set():
            try:
                items = self._cluster.get(METRIC_PATH)["items"]
                self.answers.append(items[0]["value"])
            except OSError as exc:
                self.answers.append(" ".join([repr(exc), *getattr(exc, "__notes__", [])]))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(30)


def test_a7_serving_certificate_is_replaced_under_load_without_a_failed_request(
    control_plane: ControlPlane, adapter: SecureAdapter
) -> None:
    """New handshakes show the new one within seconds; what is connected goes on."""
    before = adapter.fetch_serving_serial()
    with Load(control_plane) as load:
        control_plane.wait_for(lambda: len(load.answers) > 50, what="the load to run")
        adapter.write_serving_certificate()
        control_plane.wait_for(lambda: adapter.fetch_serving_serial() != before, what="a new serial", timeout_s=60)
        seen = len(load.answers)
        control_plane.wait_for(lambda: len(load.answers) > seen + 50, what="the load to go on")
    assert set(load.answers) == {"5"}


def test_a2_rotated_front_proxy_authority_is_believed_and_the_old_one_is_not(
    control_plane: ControlPlane, adapter: SecureAdapter
) -> None:
    """Within 60 s, without a restart."""
    old_proxy = control_plane.front_proxy_ca.issue_client("front-proxy-client")
    assert adapter.get(METRIC_PATH, credential=old_proxy, headers=SPOOF).code == 200
    pid = adapter.pid
    control_plane.rotate_requestheader_ca()
    began_s = time.monotonic()
    new_proxy = control_plane.front_proxy_ca.issue_client("front-proxy-client")

    def is_rotated() -> bool:
        adapter.hang_up()
        return ask_as(adapter, new_proxy) == 200 and ask_as(adapter, old_proxy) in {0, 401}

    control_plane.wait_for(is_rotated, what="the new authority alone is believed", timeout_s=60)
    assert time.monotonic() - began_s < 60
    control_plane.wait_for_apiservice_available()
    assert '"value":"5"' in ask_through_cluster(control_plane, "admin")
    assert adapter.pid == pid


def ask_as(adapter: SecureAdapter, credential: Credential) -> int:
    """Return the code of an answer to the front proxy *credential*, 0 if it got no connection."""
    try:
        return adapter.get(METRIC_PATH, credential=credential, headers=SPOOF).code
    except httpx.TransportError:
        return 0


@pytest.mark.parametrize(
    "restart", [pytest.param("restart_apiserver", id="apiserver"), pytest.param("restart_etcd", id="etcd")]
)
def test_restarted_control_plane_finds_the_adapter_serving(
    control_plane: ControlPlane, adapter: SecureAdapter, restart: str
) -> None:
    """Nothing is restarted by hand: the adapter answers all the time, and what changes afterwards reaches it."""
    pid, answered = adapter.pid, threading.Event()
    proxy = control_plane.front_proxy_ca.issue_client("front-proxy-client")
    codes: list[int] = []

    def ask() -> None:
        while not answered.is_set():
            codes.append(ask_as(adapter, proxy))
            time.sleep(0.02)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        getattr(control_plane, restart)()
    finally:
        answered.set()
        asking.join(30)
    assert len(codes) > 20
    assert set(codes) == {200}
    control_plane.wait_for_apiservice_available()
    control_plane.wait_for(
        lambda: '"value":"5"' in ask_through_cluster(control_plane, "admin"), what="a value through the cluster"
    )
    # Re-synced: a change of the trust after the restart arrives. An unknown header name is harmless to the others.
    loaded = adapter.read_log().count("authentication_settings_loaded")
    prefixes = json.dumps(["X-Remote-Extra-", f"X-After-{restart}-"])
    patch = json.dumps({"data": {"requestheader-extra-headers-prefix": prefixes}})
    control_plane.kubectl(
        "patch", "configmap", "extension-apiserver-authentication", "-n", "kube-system", "--type=merge", "-p", patch
    )
    adapter.wait_for_log("authentication_settings_loaded", times=loaded + 1, timeout_s=60)
    assert adapter.pid == pid
