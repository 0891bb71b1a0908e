"""The adapter is a good citizen of the cluster: what people and controllers ask of every API group works here too.

What kube-apiserver's log says over three minutes is looked at in test_truth_table, where the adapter is registered
that long, and in trouble besides.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from loadgen.cluster import ControlPlane, KubectlFailed
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.adapter import API
from tests.support.exporter import Exporter
from tests.support.secure_adapter import SecureAdapter

GROUP = "external.metrics.k8s.io"


@pytest.fixture(scope="module")
def prometheus(prometheus_binary: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a queue of 42, and a queue drained to 0."""
    text = 'depth{queue="orders"} 42\ndepth{queue="drained"} 0\n'
    with (
        Exporter(text) as exporter,
        Prometheus(prometheus_binary, jobs=[ScrapeJob(name="queues", targets=(exporter.target,))]) as running,
    ):
        running.wait_for("depth")
        yield running


@pytest.fixture(scope="module")
def adapter(control_plane: ControlPlane, prometheus: Prometheus) -> Iterator[SecureAdapter]:
    """The adapter, registered and found good."""
    config = {
        "prometheus": {"url": prometheus.url},
        "metrics": [
            {"name": "depth", "query": "sum by (queue) (depth)"},
            {"name": "gone", "query": "no_such_series"},
        ],
    }
    with SecureAdapter(control_plane, config) as running:
        running.register()
        yield running


@pytest.fixture
def outage(prometheus: Prometheus, adapter: SecureAdapter) -> Iterator[None]:
    """Prometheus is stopped for the length of the test, and the adapter has noticed."""
    prometheus.kill()
    adapter.cluster.wait_for(
        lambda: "backend unavailable" in refuse(adapter.cluster, "depth"), what="the outage is noticed"
    )
    try:
        yield
    finally:
        prometheus.start()
        prometheus.wait_for("depth")


WHILE = pytest.mark.parametrize(
    "condition", [pytest.param("adapter", id="in-health"), pytest.param("outage", id="prometheus-stopped")]
)


def refuse(cluster: ControlPlane, metric: str, selector: str = "") -> str:
    """Return what kubectl says on stderr when it is refused *metric*; empty when it gets it."""
    query = f"?labelSelector={quote(selector)}" if selector else ""
    try:
        cluster.kubectl("get", "--raw", f"{API}/namespaces/default/{metric}{query}")
    except KubectlFailed as exc:
        return exc.stderr
    return ""


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(("queue", "value"), [pytest.param("orders", "42", id="42"), pytest.param("drained", "0")])
def test_kubectl_get_raw_prints_the_value(control_plane: ControlPlane, queue: str, value: str) -> None:
    """A person sees through kubectl what the HPA controller sees; H4: a true 0 is 0."""
    path = f"{API}/namespaces/default/depth?labelSelector=queue%3D{queue}"
    document = json.loads(control_plane.kubectl("get", "--raw", path).stdout)
    assert document["kind"] == "ExternalMetricValueList"
    assert [(item["metricName"], item["metricLabels"], item["value"]) for item in document["items"]] == [
        ("depth", {"queue": queue}, value)
    ]


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(
    ("metric", "selector", "said"),
    [
        pytest.param("nothing", "", '(NotFound): metric "nothing": depthgauge has no rule for this metric', id="rule"),
        pytest.param("gone", "", '(NotFound): metric "gone": query returned no samples', id="samples"),
        pytest.param(
            "depth",
            "zone=a",
            '(NotFound): metric "depth": none of the 2 series has the label "zone" that zone=a needs; '
            "labels that exist: queue",
            id="selector",
        ),
        pytest.param("depth", "queue in (a", '(BadRequest): metric "depth": invalid labelSelector', id="grammar"),
    ],
)
def test_kubectl_get_raw_prints_the_cause_in_our_words(
    control_plane: ControlPlane, metric: str, selector: str, said: str
) -> None:
    """What went wrong reaches the person through the aggregation layer, word for word."""
    assert refuse(control_plane, metric, selector).startswith(f"Error from server {said}")


@pytest.mark.usefixtures("outage")
def test_kubectl_get_raw_prints_an_outage_as_such(control_plane: ControlPlane) -> None:
    """While Prometheus is stopped, the error says that it is the backend."""
    said = refuse(control_plane, "depth")
    assert said.startswith('Error from server (ServiceUnavailable): metric "depth": backend unavailable: ')


@WHILE
def test_kubectl_lists_the_group_without_a_word_on_stderr(
    control_plane: ControlPlane, condition: str, request: pytest.FixtureRequest
) -> None:
    """Everyone who uses kubectl in the cluster would see what a group in trouble makes it print."""
    request.getfixturevalue(condition)
    resources = control_plane.kubectl("api-resources", "--cached=false")
    versions = control_plane.kubectl("api-versions")
    assert (resources.stderr, versions.stderr) == ("", "")
    assert f"{GROUP}/v1beta1" in versions.stdout.split()
    listed = [line.split() for line in resources.stdout.splitlines() if GROUP in line]
    assert listed == [[name, f"{GROUP}/v1beta1", "true", "ExternalMetricValueList"] for name in ("depth", "gone")]


@WHILE
def test_namespace_is_gone_within_half_a_minute_of_its_deletion(
    control_plane: ControlPlane, condition: str, request: pytest.FixtureRequest
) -> None:
    """Deleting a namespace asks every group what it holds: ours answers, whatever Prometheus does."""
    request.getfixturevalue(condition)
    name = f"passing-{condition}"
    control_plane.create_namespace(name)
    control_plane.kubectl("create", "configmap", "kept", "-n", name, "--from-literal=depth=3")
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
    control_plane.wait_for(
        lambda: control_plane.find(f"/api/v1/namespaces/{name}") is None, what="it is gone", timeout_s=30
    )


@pytest.mark.usefixtures("adapter")
def test_last_metric_deleted_leaves_the_group_listed(control_plane: ControlPlane, adapter: SecureAdapter) -> None:
    """A configuration without a rule still gives discovery something to list: an empty list is an error to clients."""
    config = adapter.config_path.read_text()
    adapter.write_config({"metrics": []})
    try:
        adapter.wait_for_log("config_reloaded")
        done = control_plane.kubectl("api-resources", "--cached=false", f"--api-group={GROUP}")
        assert done.stderr == ""
        assert "ExternalMetricValueList" in done.stdout
    finally:
        adapter.write_config(config)
        adapter.wait_for_log("config_reloaded", times=2)
