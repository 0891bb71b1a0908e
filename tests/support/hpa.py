"""Deployments with an HPA each, on a real control plane: built, applied, and seen as they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loadgen.cluster import ControlPlane

Document = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMetric:
    """One metric of an HPA; exactly one of *average_value* and *value* is its target, a Kubernetes quantity."""

    name: str
    average_value: str = ""
    value: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)

    def build(self) -> Document:
        """Return it as an entry of an HPA's `metrics`."""
        metric: Document = {"name": self.name}
        if self.selector:
            metric["selector"] = {"matchLabels": dict(self.selector)}
        target = (
            {"type": "AverageValue", "averageValue": self.average_value}
            if self.average_value
            else {"type": "Value", "value": self.value}
        )
        return {"type": "External", "external": {"metric": metric, "target": target}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A deployment and the HPA of the same name, between 1 and 10 replicas.

    Attributes:
        replicas: what the deployment begins with.
        scale_down_window_s: the HPA's scale-down stabilization; 0 lets it follow at once.
    """

    name: str
    metrics: Sequence[ExternalMetric]
    replicas: int = 5
    scale_down_window_s: int = 0

    def build_deployment(self, namespace: str) -> Document:
        """Return the deployment."""
        labels = {"app": self.name}
        container = {"name": "main", "image": "none"}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }

    def build_autoscaler(self, namespace: str) -> Document:
        """Return the HPA."""
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
                "minReplicas": 1,
                "maxReplicas": 10,
                "metrics": [metric.build() for metric in self.metrics],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": self.scale_down_window_s}},
            },
        }


@dataclass(frozen=True, slots=True)
class Sight:
    """One workload at one moment.

    Attributes:
        replicas: what the deployment is told to have.
        generation: counts every change of the deployment's specification, also one that was taken back.
        ready: pods that are ready.
        is_active: the HPA's condition ScalingActive; None before the first evaluation.
        reason: that condition's reason.
        message: that condition's message.
        current: the HPA's `currentMetrics`.
    """

    replicas: int
    generation: int
    ready: int
    is_active: bool | None
    reason: str
    message: str
    current: Sequence[Mapping[str, Any]]


class Fleet:
    """The workloads of one namespace."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._cluster = cluster
        self.namespace = namespace
        cluster.create_namespace(namespace)

    def add(self, *workloads: Workload) -> None:
        """Create deployments, and their HPAs once every pod of them exists."""
        self._cluster.apply([workload.build_deployment(self.namespace) for workload in workloads])
        wanted = {workload.name: workload.replicas for workload in workloads}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

        def is_complete() -> bool:
            items = self._cluster.get(path)["items"]
            present = {item["metadata"]["name"]: item.get("status", {}).get("replicas", 0) for item in items}
            return all(present.get(name) == count for name, count in wanted.items())

        self._cluster.wait_for(is_complete, what=f"pods for {', '.join(wanted)}")
        self.change(*workloads)

    def change(self, *workloads: Workload) -> None:
        """Create the HPAs of *workloads*, or make them what these say now; the deployments stay as they are."""
        self._cluster.apply([workload.build_autoscaler(self.namespace) for workload in workloads])

    def look(self) -> dict[str, Sight]:
        """Return every workload as it is now, by name."""
        base = f"namespaces/{self.namespace}"
        autoscalers = self._cluster.get(f"/apis/autoscaling/v2/{base}/horizontalpodautoscalers")["items"]
        deployments = self._cluster.get(f"/apis/apps/v1/{base}/deployments")["items"]
        statuses = {item["metadata"]["name"]: item.get("status", {}) for item in autoscalers}
        return {
            item["metadata"]["name"]: _build_sight(item, statuses.get(item["metadata"]["name"], {}))
            for item in deployments
        }

    def list_rescales(self, name: str) -> list[int]:
        """Return the sizes that the HPA *name* has set, in order, from its events; a size that comes back is one."""
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name={name}"
        events = sorted(self._cluster.get(path)["items"], key=lambda event: int(event["metadata"]["resourceVersion"]))
        messages = [event["message"] for event in events if event["reason"] == "SuccessfulRescale"]
        return [int(message.removeprefix("New size: ").partition(";")[0]) for message in messages]

    def wait_for(self, find: Callable[[dict[str, Sight]], T | None], *, what: str, timeout_s: float = 30.0) -> T:
        """Look until *find* returns something true of the sight, and return that.

        Raises: ClusterFailed naming *what* and the last sight.
        """
        last: dict[str, Sight] = {}

        def look() -> T | None:
            last.clear()
            last.update(self.look())
            return find(last)

        try:
            return self._cluster.wait_for(look, what=what, timeout_s=timeout_s)
        except Exception as exc:
            for name, sight in last.items():
                exc.add_note(f"{name}: {sight}")
            raise

    def wait_for_replicas(self, wanted: Mapping[str, int], *, timeout_s: float = 30.0) -> None:
        """Return once each workload named in *wanted* is told to have so many replicas, by an HPA that is active."""

        def is_reached(seen: dict[str, Sight]) -> bool:
            return all(seen[name].replicas == count and bool(seen[name].is_active) for name, count in wanted.items())

        self.wait_for(is_reached, what=f"replicas {dict(wanted)}", timeout_s=timeout_s)

    def delete(self) -> None:
        """Delete the namespace, without waiting until it is gone."""
        self._cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")


def _build_sight(deployment: Mapping[str, Any], autoscaler_status: Mapping[str, Any]) -> Sight:
    conditions = {condition["type"]: condition for condition in autoscaler_status.get("conditions") or ()}
    active = conditions.get("ScalingActive")
    return Sight(
        replicas=deployment["spec"]["replicas"],
        generation=deployment["metadata"]["generation"],
        ready=deployment.get("status", {}).get("readyReplicas", 0),
        is_active=None if active is None else active["status"] == "True",
        reason="" if active is None else active["reason"],
        message="" if active is None else active["message"],
        current=autoscaler_status.get("currentMetrics") or (),
    )
