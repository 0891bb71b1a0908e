"""The adapter is a good citizen of the cluster: what people and controllers ask of every API group works here too.

What kube-apiserver's log says over three minutes is looked at in test_truth_table, where the adapter is registered
that long, and in trouble besides.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from loadgen.cluster import ControlPlane, KubectlFailed
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.adapter import API
from tests.support.exporter import Exporter
from tests.support.secure_adapter import SecureAdapter

GROUP = "external.metrics.k8s.io"
APISERVICE = f"v1beta1.{GROUP}"


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
    with SecureAdapter(control_plane, build_config(prometheus.url)) as running:
        running.register()
        path = f"{API}/namespaces/default/depth"  # the first sample is seen by the first tick after it
        control_plane.wait_for(lambda: control_plane.get(path), what="a value")
        yield running


def build_config(url: str, *more: str) -> dict[str, object]:
    """Return a configuration with two metrics, and *more*."""
    metrics = [{"name": "depth", "query": "sum by (queue) (depth)"}, {"name": "gone", "query": "no_such_series"}]
    return {"prometheus": {"url": url}, "metrics": [*metrics, *({"name": name, "query": "depth"} for name in more)]}


def refresh_discovery(adapter: SecureAdapter, name: str) -> None:
    """Return once the API server lists a metric that was just added as *name*, or finds that it cannot ask the adapter.

    It keeps for up to a minute what it was told before, so without this the tests would look at the past. A change of
    the APIService makes it ask anew.
    """
    cluster = adapter.cluster
    url = yaml.safe_load(adapter.config_path.read_text())["prometheus"]["url"]
    adapter.write_config(build_config(url, name))

    def is_refreshed() -> bool:
        cluster.kubectl("annotate", "apiservice", APISERVICE, f"asked-anew={time.monotonic()}", "--overwrite")
        try:
            done = cluster.kubectl("api-resources", "--cached=false", f"--api-group={GROUP}")
        except KubectlFailed:
            return True
        return bool(done.stderr) or name in done.stdout

    cluster.wait_for(is_refreshed, what=f"{name} is listed")


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
    control_plane: ControlPlane, adapter: SecureAdapter, condition: str, request: pytest.FixtureRequest
) -> None:
    """Everyone who uses kubectl in the cluster would see what a group in trouble makes it print."""
    request.getfixturevalue(condition)
    refresh_discovery(adapter, f"listed-{condition}")
    resources = control_plane.kubectl("api-resources", "--cached=false")
    versions = control_plane.kubectl("api-versions")
    assert (resources.stderr, versions.stderr) == ("", "")
    assert f"{GROUP}/v1beta1" in versions.stdout.split()
    listed = [line.split() for line in resources.stdout.splitlines() if GROUP in line]
    assert listed == [
        [name, f"{GROUP}/v1beta1", "true", "ExternalMetricValueList"]
        for name in ("depth", "gone", f"listed-{condition}")
    ]


@WHILE
def test_namespace_is_gone_within_half_a_minute_of_its_deletion(
    control_plane: ControlPlane, adapter: SecureAdapter, condition: str, request: pytest.FixtureRequest
) -> None:
    """Deleting a namespace asks every group what it holds: ours answers, whatever Prometheus does."""
    request.getfixturevalue(condition)
    refresh_discovery(adapter, f"deleted-{condition}")
    name = f"passing-{condition}"
    control_plane.create_namespace(name)
    control_plane.kubectl("create", "configmap", "kept", "-n", name, "--from-literal=depth=3")
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
    control_plane.wait_for(
        lambda: control_plane.find(f"/api/v1/namespaces/{name}") is None, what="it is gone", timeout_s=30
    )
