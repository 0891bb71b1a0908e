"""One of two adapters leaves, and nobody who asks through the API server notices."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.cluster import ControlPlane
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.adapter import API
from tests.support.exporter import Exporter
from tests.support.open_loop import OpenLoop
from tests.support.secure_adapter import NAMESPACE, SERVICE, SecureAdapter
from tests.support.self_metrics import count_requests

RATE_PER_S = 200
REQUESTS = 6600
LEAST_SHARE = 0.3
LEAVES_AFTER = 2100
"""So many answers has the one that leaves given by then: more than its share of all requests."""
DRAIN_S = 8.0
HPA_CONTROLLER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


def count_answers(adapter: SecureAdapter) -> int:
    """Return how many questions about the metric *adapter* has answered with a value."""
    return count_requests(adapter)["depth", "OK"]


@pytest.fixture
def adapters(control_plane: ControlPlane, prometheus_binary: Path) -> Iterator[tuple[SecureAdapter, SecureAdapter]]:
    """Two adapters that ask one Prometheus, behind one service, an EndpointSlice each."""
    with (
        Exporter("depth 42\n") as exporter,
        Prometheus(prometheus_binary, jobs=[ScrapeJob(name="queues", targets=(exporter.target,))]) as prometheus,
    ):
        prometheus.wait_for("depth")
        config = {"prometheus": {"url": prometheus.url}, "metrics": [{"name": "depth", "query": "sum(depth)"}]}
        with (
            SecureAdapter(control_plane, config, shutdown_delay_s=DRAIN_S) as first,
            SecureAdapter(control_plane, config) as second,
        ):
            first.register(second)
            path = f"{API}/namespaces/default/depth"  # the first sample is seen by the first tick after it
            control_plane.wait_for(
                lambda: control_plane.get(path) and count_answers(first) and count_answers(second),
                what="a value from both",
            )
            yield first, second


@pytest.mark.timeout(240)
def test_adapter_that_leaves_loses_no_request(
    control_plane: ControlPlane, adapters: tuple[SecureAdapter, SecureAdapter]
) -> None:
    """SIGTERM under 200 requests/s: /readyz says 503, then the slice goes, then the process, and all get their value.

    The requests come as the HPA controller's do, through the aggregation layer, authorized by the cluster.
    """
    leaving, staying = adapters
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    context = leaving.build_context(control_plane.ca.issue_client(HPA_CONTROLLER, organizations=groups))
    url = f"{control_plane.url}{API}/namespaces/default/depth"
    with OpenLoop(url, ssl_context=context, rate_per_s=RATE_PER_S, count=REQUESTS) as load:
        control_plane.wait_for(
            lambda: count_answers(leaving) >= LEAVES_AFTER, what=f"{LEAVES_AFTER} answers", timeout_s=90
        )
        leaving.terminate()
        control_plane.wait_for(
            lambda: leaving.get_ops("/readyz").status_code == 503, what="/readyz says 503", timeout_s=5
        )
        answered_unready = count_answers(leaving)
        control_plane.set_endpoints(SERVICE, namespace=NAMESPACE, ports=[staying.port])
        answered_removed = count_answers(leaving)
        assert leaving.wait_for_end() == 0
        done_at_end = load.done
        outcomes = load.wait(timeout_s=90)

    assert Counter(outcome.error for outcome in outcomes if not outcome.is_good) == {}
    assert len(outcomes) == REQUESTS
    assert answered_removed > answered_unready  # it went on while the cluster did not know yet
    assert REQUESTS - done_at_end >= RATE_PER_S  # and the load went on without it
    assert answered_removed >= LEAST_SHARE * REQUESTS
    assert count_answers(staying) >= LEAST_SHARE * REQUESTS
