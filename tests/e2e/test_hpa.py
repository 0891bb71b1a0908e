"""The real HPA controller follows a real gauge, through a real Prometheus and the adapter."""

import functools
import json
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadgen.cluster import ControlPlane
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.adapter import API
from tests.support.exporter import Exporter
from tests.support.hpa import ExternalMetric, Fleet, Sight, Workload
from tests.support.secure_adapter import SecureAdapter

SYNC_S = 2.0
WINDOW_S = 10
TICK_S = 5.0


class Gauges:
    """An exporter's gauges `depth{queue=NAME}`, which Prometheus scrapes every second."""

    def __init__(self, exporter: Exporter, prometheus: Prometheus) -> None:
        self._exporter = exporter
        self._prometheus = prometheus
        self._values: dict[str, float] = {}

    def set(self, **values: float) -> float:
        """Set gauges by queue, and return when Prometheus has begun to see them, on the monotonic clock."""
        self._values |= values
        self._exporter.set("".join(f'depth{{queue="{queue}"}} {value}\n' for queue, value in self._values.items()))
        for queue, value in values.items():
            self._prometheus.wait_for(f'depth{{queue="{queue}"}} == {value}')
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything between a gauge and a deployment."""

    cluster: ControlPlane
    gauges: Gauges
    fleet: Fleet


@pytest.fixture(scope="module")
def chain(control_plane: ControlPlane, prometheus_binary: Path) -> Iterator[Chain]:
    """Exporter, Prometheus, adapter, control plane and a node on which pods get ready."""
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter())
        jobs = [ScrapeJob(name="queues", targets=(exporter.target,))]
        prometheus = stack.enter_context(Prometheus(prometheus_binary, jobs=jobs))
        config = {"prometheus": {"url": prometheus.url}, "metrics": [{"name": "depth", "query": "depth"}]}
        stack.enter_context(SecureAdapter(control_plane, config)).register()
        control_plane.create_node("hpa")
        fleet = Fleet(control_plane, "follows")
        try:
            yield Chain(control_plane, Gauges(exporter, prometheus), fleet)
        finally:
            fleet.delete()
            control_plane.kubectl("delete", "node", "hpa")


def follow(queue: str, *, average_value: str = "", value: str = "") -> ExternalMetric:
    """Return the metric about one queue."""
    return ExternalMetric(name="depth", average_value=average_value, value=value, selector={"queue": queue})


def test_hpa_follows_the_gauge_up_and_down_after_its_window(chain: Chain) -> None:
    """AverageValue 100: 150 is 2 replicas, 600 is 6; back at 150 the 6 stay for the window of 10 s, then 2 it is."""
    chain.gauges.set(orders=150)
    metric = follow("orders", average_value="100")
    chain.fleet.add(Workload(name="orders", metrics=[metric], replicas=2, scale_down_window_s=WINDOW_S))
    chain.fleet.wait_for_replicas({"orders": 2})

    up_s = chain.gauges.set(orders=600)
    chain.fleet.wait_for_replicas({"orders": 6}, timeout_s=20)
    assert time.monotonic() - up_s < TICK_S + 3 * SYNC_S

    down_s = chain.gauges.set(orders=150)
    chain.fleet.wait_for(lambda seen: seen["orders"].replicas < 6, what="fewer than 6 replicas")
    assert time.monotonic() - down_s > WINDOW_S - SYNC_S  # the last 600 was seen by a sync before the gauge fell
    chain.fleet.wait_for_replicas({"orders": 2}, timeout_s=5)
    assert time.monotonic() - down_s < WINDOW_S + TICK_S + 4 * SYNC_S


def test_hpa_multiplies_ready_pods_for_a_value_target(chain: Chain) -> None:
    """Value 100: a gauge of 200 doubles the ready pods, one of 50 halves them, one of 100 leaves them."""
    chain.gauges.set(jobs=100)
    chain.fleet.add(Workload(name="jobs", metrics=[follow("jobs", value="100")], replicas=3))
    assert wait_until_settled(chain.fleet, "jobs") == 3
    assert chain.fleet.list_rescales("jobs") == []

    chain.gauges.set(jobs=200)
    chain.fleet.wait_for(lambda seen: seen["jobs"].replicas > 3, what="more than 3 replicas")
    assert chain.fleet.list_rescales("jobs")[0] == 6

    chain.gauges.set(jobs=100)  # the pods were doubled once, or twice by now, up to the 10 allowed
    many = wait_until_settled(chain.fleet, "jobs")
    before = chain.fleet.list_rescales("jobs")
    chain.gauges.set(jobs=50)
    chain.fleet.wait_for(lambda seen: seen["jobs"].replicas < many, what=f"fewer than {many} replicas")
    assert chain.fleet.list_rescales("jobs")[len(before)] == math.ceil(many / 2)


def wait_until_settled(fleet: Fleet, name: str) -> int:
    """Return the replicas of *name* once all are ready and its HPA has read its target's own value, 100."""

    def is_settled(seen: dict[str, Sight]) -> bool:
        sight = seen[name]
        read = [metric.get("external", {}).get("current", {}).get("value") for metric in sight.current]
        return sight.ready == sight.replicas and read == ["100"]

    fleet.wait_for(is_settled, what=f"{name} settled at a value of 100")
    return fleet.look()[name].replicas


def test_hpa_at_zero_goes_to_its_least_and_stays_active(chain: Chain) -> None:
    """H4: a queue that is truly empty is 0, and no error: one replica is left, and the next message is followed."""
    chain.gauges.set(drained=500)
    chain.fleet.add(Workload(name="drained", metrics=[follow("drained", average_value="100")]))
    chain.fleet.wait_for_replicas({"drained": 5})
    chain.gauges.set(drained=0)
    chain.fleet.wait_for_replicas({"drained": 1})
    chain.gauges.set(drained=300)
    chain.fleet.wait_for_replicas({"drained": 3})


def test_two_questions_in_one_tick_get_the_same_answer(chain: Chain) -> None:
    """H5: within a tick the answer is one, to the letter, though the gauge has moved; the next tick shows it."""
    path = f"{API}/namespaces/default/depth?labelSelector=queue%3Djitter"

    def ask() -> str:
        return json.dumps(chain.cluster.get(path)["items"])

    def is_at(tick: float) -> bool:
        return time.time() // TICK_S == tick

    for value in range(100, 110):
        chain.gauges.set(jitter=value)
        next_tick = time.time() // TICK_S + 1
        chain.cluster.wait_for(functools.partial(is_at, next_tick), what="a new tick")
        first = ask()
        chain.gauges.set(jitter=value + 1000)
        second = ask()
        if is_at(next_tick):
            break
    else:
        pytest.fail("ten times the gauge took longer than a tick to get to Prometheus")
    assert second == first
    assert f'"value": "{value}"' in first
    moved = chain.cluster.wait_for(lambda: answer if (answer := ask()) != first else None, what="another answer")
    assert f'"value": "{value + 1000}"' in moved
