"""What `cluster up` gives to play with, as objects and files: a queue's depth, a rule, a deployment and its HPA."""

from typing import Any, Final

from loadgen.exporter import METRIC as EXPORTED_METRIC
from loadgen.hops import build_metric_url

NAMESPACE: Final = "demo"
WORKLOAD: Final = "orders-worker"
METRIC: Final = "queue_length"
QUEUE: Final = "orders"
MISTYPED_QUEUE: Final = "oders"
FIRST_DEPTH: Final = 250
DEPTH_OF_ONE_REPLICA: Final = 100
SERIES: Final = f'{EXPORTED_METRIC}{{queue="{QUEUE}"}}'
SCALE_DOWN_WINDOW_S: Final = 10
"""Kubernetes' own is 300: too long to watch."""


def build_depths() -> str:
    """Return the text that the exporter serves at the beginning."""
    return (
        f"# Edit the numbers, save, and watch: kubectl get hpa -n {NAMESPACE} -w\n"
        f"# HELP {EXPORTED_METRIC} Messages that wait in the queue.\n"
        f"# TYPE {EXPORTED_METRIC} gauge\n"
        f"{SERIES} {FIRST_DEPTH}\n"
        f'{EXPORTED_METRIC}{{queue="invoices"}} 40\n'
    )


def build_rules(prometheus_url: str) -> str:
    """Return the adapter's configuration, as a person would write it."""
    return (
        "# Edit and save: it is loaded again. A problem is in the adapter's log, and the last good one stays.\n"
        "prometheus:\n"
        f"  url: {prometheus_url}\n"
        "resolution: 1s\n"
        "metrics:\n"
        f"- name: {METRIC}\n"
        f"  query: sum by (queue) ({EXPORTED_METRIC})\n"
    )


def build_path(queue: str = QUEUE) -> str:
    """Return the path at which the HPA asks for the depth of *queue*."""
    return build_metric_url("", METRIC, selector=f"queue={queue}", namespace=NAMESPACE)


def build_deployment() -> dict[str, Any]:
    """Return the deployment that the HPA scales."""
    labels = {"app": WORKLOAD}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "worker", "image": "example/worker"}]},
            },
        },
    }


def build_autoscaler() -> dict[str, Any]:
    """Return the HPA: one replica for each hundred messages, between 1 and 10."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": METRIC, "selector": {"matchLabels": {"queue": QUEUE}}},
                        "target": {"type": "AverageValue", "averageValue": str(DEPTH_OF_ONE_REPLICA)},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": SCALE_DOWN_WINDOW_S}},
        },
    }
