"""What is asked: the rules, the exporter's series behind them, and the requests of each case."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

METRICS = 100
QUEUES = 10
RESOLUTION_S = 5

_API = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default"
_SELECTORS = (
    "queue=q0",
    "queue=q1",
    "queue=q2",
    "queue in (q3,q4)",
    "queue in (q1,q2,q3)",
    "queue notin (q0,q9)",
    "queue!=q5",
    "queue",
    "queue=q6,queue!=q7",
    "",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of load: request targets (path and query string), and the status that all of them are answered with."""

    name: str
    targets: tuple[str, ...]
    status: int


def build_cases() -> list[Case]:
    """Return the cases."""
    return [
        Case("one item", (f"{_API}/queue_length?labelSelector=" + quote("queue=orders"),), 200),
        Case(f"{METRICS} metrics x {len(_SELECTORS)} selectors", tuple(_build_many()), 200),
        Case("404 NoMatch", (f"{_API}/queue_length?labelSelector=" + quote("queue=order"),), 404),
        Case("404 UnknownMetric", (f"{_API}/queue_lenght?labelSelector=" + quote("queue=orders"),), 404),
    ]


def _build_many() -> Iterator[str]:
    for selector in _SELECTORS:
        for number in range(METRICS):
            yield f"{_API}/depth_{number}" + (f"?labelSelector={quote(selector)}" if selector else "")


def build_config(prometheus_url: str) -> dict[str, object]:
    """Return depthgauge's configuration."""
    many = [{"name": f"depth_{n}", "query": f"sum by (queue) (bench_depth_{n})"} for n in range(METRICS)]
    one = {"name": "queue_length", "query": "sum by (queue) (bench_queue_length)"}
    return {"prometheus": {"url": prometheus_url}, "resolution": f"{RESOLUTION_S}s", "metrics": [one, *many]}


def build_exposition() -> str:
    """Return the series that the rules are about, as an exporter prints them."""
    lines = ['bench_queue_length{queue="orders"} 52443']
    lines += [
        f'bench_depth_{number}{{queue="q{queue}"}} {1000 * number + queue}.5'
        for number in range(METRICS)
        for queue in range(QUEUES)
    ]
    return "\n".join([*lines, ""])


def build_head(target: str) -> str:
    """Return a request as the aggregator forwards the HPA controller's, but for its Audit-Id and the empty line."""
    return (
        f"GET {target} HTTP/1.1\r\n"
        "Host: depthgauge.monitoring.svc\r\n"
        "User-Agent: kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/0000000"
        "/system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n"
        "Accept: application/vnd.kubernetes.protobuf, */*\r\n"
        "Accept-Encoding: gzip\r\n"
        "X-Forwarded-For: 127.0.0.1\r\n"
        f"X-Forwarded-Uri: {target.partition('?')[0]}\r\n"
        "X-Remote-User: system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n"
        "X-Remote-Uid: 3b1f7f0e-0000-4000-8000-000000000000\r\n"
        "X-Remote-Group: system:serviceaccounts\r\n"
        "X-Remote-Group: system:serviceaccounts:kube-system\r\n"
        "X-Remote-Group: system:authenticated\r\n"
        "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id: JTI=00000000-0000-4000-8000-000000000000\r\n"
    )
