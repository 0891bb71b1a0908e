"""Whatever breaks between a queue and its HPA, the replicas stay, and the HPA says why in our words.

All faults happen at once, in one window of a minute, each to an HPA of its own. So it is shown too that none of them
disturbs the others. Two servers that lie instead fail the same checks.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loadgen.cluster import ClusterFailed, ControlPlane
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from tests.support.exporter import Exporter
from tests.support.hpa import ExternalMetric, Fleet, Sight, Workload
from tests.support.metrics_stub import MetricsStub
from tests.support.secure_adapter import NAMESPACE, SERVICE, SecureAdapter
from tests.support.self_metrics import count_requests

pytestmark = pytest.mark.timeout(400)

WINDOW_S = 60.0
LEAST_SYNCS = 20
LOG_WINDOW_S = 180.0
POLL_S = 0.5
GROUP = "external.metrics.k8s.io"
UNDISTURBED = "undisturbed"
DOOMED = ("exporter-killed", "exporter-killed-or-zero")
BESIDES = (UNDISTURBED, "first", "second")


@dataclass(frozen=True, slots=True)
class Fault:
    """What breaks, by the name of its metric and HPA; the Reason that must be given, and words of its message."""

    name: str
    reason: str
    words: str
    counted_as: str = ""

    @property
    def counter(self) -> tuple[str, str]:
        """Where the adapter's own metrics count the questions that it answered with the Reason."""
        return self.counted_as or self.name, self.reason


FAULTS = (
    Fault("exporter-killed", "Incomplete", "scrape targets that fed this metric are down: doomed/127.0.0.1:"),
    Fault("exporter-killed-or-zero", "Incomplete", "scrape targets that fed this metric are down: doomed/127.0.0.1:"),
    Fault("prometheus-killed", "BackendUnavailable", "backend unavailable: "),
    Fault("prometheus-hung", "DeadlineExceeded", "no answer from the backend within 5s"),
    Fault("rule-deleted", "UnknownMetric", "depthgauge has no rule for this metric", counted_as="(unknown)"),
    Fault("selector-unmatched", "NoMatch", "none of the 1 series matches queue=typo; labels that exist: queue"),
    Fault("query-bad", "BadQuery", "the backend refuses the query: bad_data: "),
    Fault("value-nan", "NotFinite", 'value is NaN of series {queue="orders"}, not a finite number'),
    Fault("value-huge", "NotRepresentable", "above 9223372036854775, the largest that the HPA can represent"),
    Fault("value-negative", "Negative", 'negative value -5 of series {queue="orders"}'),
)
NAMES = tuple(fault.name for fault in FAULTS)
each_fault = pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FAULTS])


def build_workload(name: str, *, queue: str = "orders") -> Workload:
    """Return a workload that follows the metric of its own name, 100 of it for each replica."""
    selector = {"queue": queue} if name == "selector-unmatched" else {}
    return Workload(name=name, metrics=[ExternalMetric(name=name, average_value="100", selector=selector)])


@dataclass(slots=True)
class Window:
    """What was seen while the faults lasted.

    Attributes:
        history: every sight, with its seconds since the faults.
        answers: what was asked meanwhile, by metric and Reason.
    """

    history: list[tuple[float, dict[str, Sight]]] = field(default_factory=list)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)

    def watch(self, fleet: Fleet, *, until_s: float, begun_s: float) -> None:
        """Look every half second until *until_s* seconds after *begun_s*."""
        while (elapsed_s := time.monotonic() - begun_s) < until_s:
            self.history.append((elapsed_s, fleet.look()))
            time.sleep(POLL_S)
        self.history.append((time.monotonic() - begun_s, fleet.look()))


def check_held(fault: Fault, window: Window) -> None:
    """Raise AssertionError unless the replicas of *fault*'s workload stayed 5, and its HPA says why."""
    changes = [(at_s, seen[fault.name].replicas) for at_s, seen in window.history if seen[fault.name].replicas != 5]
    assert changes == [], "replicas changed"
    generations = {seen[fault.name].generation for _, seen in window.history}
    assert len(generations) == 1, "replicas changed between two looks"
    assert window.history[-1][0] >= WINDOW_S
    assert window.answers[fault.counter] >= LEAST_SYNCS
    last = window.history[-1][1][fault.name]
    assert (last.is_active, last.reason) == (False, "FailedGetExternalMetric")
    assert f'metric "{fault.name}": ' in last.message
    assert fault.words in last.message


class Chain:
    """Exporters, Prometheus servers and the adapter: healthy at first, then with every fault, then mended."""

    def __init__(self, cluster: ControlPlane, prometheus_binary: Path) -> None:
        self.shared = Exporter(build_text(dict.fromkeys((*NAMES, UNDISTURBED), "500")))
        self.doomed = Exporter(build_text(dict.fromkeys(DOOMED, "500")))
        shared = self.shared.start().target
        doomed = self.doomed.start().target
        self.steady, self.killed, self.hung = (
            Prometheus(prometheus_binary, jobs=[ScrapeJob(name="shared", targets=(shared,))]) for _ in range(3)
        )
        self.steady.set_jobs([ScrapeJob(name="shared", targets=(shared,)), ScrapeJob(name="doomed", targets=(doomed,))])
        self.servers = (self.steady, self.killed, self.hung)
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.start()
        self.adapter = SecureAdapter(cluster, self.build_config())

    def build_config(self, *, deleted: str = "", spoilt: str = "") -> dict[str, Any]:
        """Return the adapter's configuration, without the rule *deleted*, with bad PromQL in the rule *spoilt*."""
        backends = {"prometheus-killed": "killed", "prometheus-hung": "hung"}
        job = dict.fromkeys(DOOMED, "doomed")
        tail = {"exporter-killed-or-zero": " or vector(0)"}
        metrics = [
            {
                "name": name,
                "query": "sum(rate(depth))"
                if name == spoilt
                else f'sum by (queue) (depth{{name="{name}", job="{job.get(name, "shared")}"}}){tail.get(name, "")}',
                "backend": backends.get(name, "default"),
            }
            for name in (*NAMES, *BESIDES)
            if name != deleted
        ]
        return {
            "prometheus": {"url": self.steady.url},
            "backends": {"killed": {"url": self.killed.url}, "hung": {"url": self.hung.url}},
            "metrics": metrics,
        }

    def break_everything(self, fleet: Fleet) -> None:
        """Let every fault happen."""
        self.adapter.write_config(self.build_config(deleted="rule-deleted", spoilt="query-bad"))
        self.doomed.stop()
        self.killed.kill()
        self.hung.pause()
        values = {"value-nan": "NaN", "value-huge": "1e17", "value-negative": "-5"}
        self.shared.set(build_text(dict.fromkeys((*NAMES, UNDISTURBED), "500") | values))
        fleet.change(build_workload("selector-unmatched", queue="typo"))

    def mend_everything(self, fleet: Fleet, *, value: str) -> None:
        """Undo every fault; every gauge is *value* then."""
        self.shared.set(build_text(dict.fromkeys((*NAMES, UNDISTURBED), value)))
        self.doomed.set(build_text(dict.fromkeys(DOOMED, value)))
        self.doomed.start()
        self.hung.resume()
        self.killed.start()
        self.adapter.write_config(self.build_config())
        fleet.change(build_workload("selector-unmatched"))

    def close(self) -> None:
        """End everything."""
        self.adapter.close()
        for server in self.servers:
            server.close()
        self.shared.stop()
        self.doomed.stop()


def build_text(values: Mapping[str, str]) -> str:
    """Return an exporter's text: one gauge for each name, about the queue `orders`."""
    lines = [f'depth{{name="{name}",queue="orders"}} {value}' for name, value in values.items()]
    return "\n".join(["# TYPE depth gauge", *lines, ""])


@dataclass(frozen=True, slots=True)
class Table:
    """The whole run.

    Attributes:
        chain: everything, running.
        fleet: the workloads.
        window: the minute of the faults.
        undisturbed_s: how long after its gauge the workload without a fault had 7 replicas.
        mended: the workloads at the end, everything being mended and every gauge being 700.
        pids: the adapter's process at the beginning and at the end.
        available_s: when the API server found the adapter good, on the monotonic clock.
        log_offset: characters of kube-apiserver's log by then.
    """

    chain: Chain
    fleet: Fleet
    window: Window
    undisturbed_s: float
    mended: Mapping[str, Sight]
    pids: tuple[int, int]
    available_s: float
    log_offset: int


@pytest.fixture(scope="module")
def table(control_plane: ControlPlane, prometheus_binary: Path) -> Iterator[Table]:
    """Run the faults, a minute of them, and mend them; the adapter stays registered until the module ends."""
    chain = Chain(control_plane, prometheus_binary)
    fleet = Fleet(control_plane, "truth-table")
    try:
        chain.adapter.start()
        chain.adapter.register()
        available_s = time.monotonic()
        log_offset = len(control_plane.read_log("kube-apiserver"))
        pid = chain.adapter.pid
        fleet.add(*(build_workload(name) for name in (*NAMES, UNDISTURBED)))
        fleet.wait_for_replicas(dict.fromkeys((*NAMES, UNDISTURBED), 5), timeout_s=60)

        window = Window()
        before = count_requests(chain.adapter)
        begun_s = time.monotonic()
        chain.break_everything(fleet)
        window.watch(fleet, until_s=15, begun_s=begun_s)
        values = {"value-nan": "NaN", "value-huge": "1e17", "value-negative": "-5", UNDISTURBED: "700"}
        chain.shared.set(build_text(dict.fromkeys(NAMES, "500") | values))
        moved_s = time.monotonic()
        with suppress(ClusterFailed):  # the tests below judge
            fleet.wait_for_replicas({UNDISTURBED: 7})
        undisturbed_s = time.monotonic() - moved_s
        window.watch(fleet, until_s=WINDOW_S, begun_s=begun_s)
        window.answers = count_requests(chain.adapter) - before

        chain.mend_everything(fleet, value="700")
        with suppress(ClusterFailed):
            fleet.wait_for_replicas(dict.fromkeys(NAMES, 7), timeout_s=60)
        yield Table(
            chain, fleet, window, undisturbed_s, fleet.look(), (pid, chain.adapter.pid), available_s, log_offset
        )
    finally:
        fleet.delete()
        chain.close()


def watch_stub(cluster: ControlPlane, fleet: Fleet, *, value: str, wanted: Mapping[str, int]) -> Window:
    """Return what is seen from when a stub, registered in the adapter's place, answers *value* until *wanted* is."""
    credential = cluster.ca.issue_server(f"{SERVICE}.{NAMESPACE}.svc")
    with MetricsStub(credential, value="500") as stub:
        cluster.register(SERVICE, namespace=NAMESPACE, ports=[stub.port], ca_bundle=cluster.ca.certificate_pem)
        try:
            cluster.wait_for_apiservice_available()
            fleet.add(*(build_workload(name) for name in NAMES))
            fleet.wait_for_replicas(dict.fromkeys(NAMES, 5), timeout_s=60)
            stub.value = value
            fleet.wait_for_replicas(wanted)
            window = Window()
            window.watch(fleet, until_s=0, begun_s=time.monotonic())
        finally:
            cluster.unregister()
    return window


@pytest.mark.parametrize(
    ("value", "replicas"), [pytest.param("0", 1, id="always-zero"), pytest.param("-5", 10, id="negative")]
)
def test_table_fails_against_server_that_answers_what_it_does_not_know(
    control_plane: ControlPlane, value: str, replicas: int
) -> None:
    """A server that says 0 takes every workload to its least, one that says -5 to its most: no check would pass."""
    fleet = Fleet(control_plane, f"lied-to-{replicas}")
    try:
        window = watch_stub(control_plane, fleet, value=value, wanted=dict.fromkeys(NAMES, replicas))
    finally:
        fleet.delete()
    for fault in FAULTS:
        with pytest.raises(AssertionError, match="replicas changed"):
            check_held(fault, window)


@each_fault
def test_replicas_are_held_for_a_minute_and_the_hpa_tells_the_cause(table: Table, fault: Fault) -> None:
    """At 5 replicas, free to go to 1 or 10 at once, the HPA asks 20 times, stays at 5, and its condition says why."""
    check_held(fault, table.window)


def test_workload_without_a_fault_scales_while_all_others_fail(table: Table) -> None:
    """Ten faults beside it neither slow its questions nor its scaling: within three ticks it follows its gauge."""
    assert table.window.answers[UNDISTURBED, "OK"] >= LEAST_SYNCS
    assert table.undisturbed_s < 15


@each_fault
def test_hpa_scales_again_once_the_fault_is_mended(table: Table, fault: Fault) -> None:
    """Every HPA follows its gauge again, with the same process of the adapter."""
    last = table.mended[fault.name]
    assert (last.replicas, last.is_active, last.reason) == (7, True, "ValidMetricFound")
    assert len(set(table.pids)) == 1


def test_failing_metric_of_two_lets_scale_up_and_holds_scale_down(control_plane: ControlPlane, table: Table) -> None:
    """H2: with one metric of two failing, the good one may add replicas and not take any, until both are good."""
    chain, fleet = table.chain, table.fleet

    def set_first(value: str) -> None:
        chain.shared.set(build_text(dict.fromkeys(NAMES, "700") | {"first": value, "second": "100"}))

    def wait_for_refusals(count: int) -> None:
        counter = ("second", "BadQuery")
        wanted = count_requests(chain.adapter)[counter] + count
        control_plane.wait_for(lambda: count_requests(chain.adapter)[counter] >= wanted, what=f"{count} refusals")

    set_first("500")
    fleet.add(Workload(name="two", metrics=[ExternalMetric(name=name, average_value="100") for name in BESIDES[1:]]))
    fleet.wait_for_replicas({"two": 5})
    chain.adapter.write_config(chain.build_config(spoilt="second"))
    wait_for_refusals(1)

    set_first("700")
    fleet.wait_for(lambda seen: seen["two"].replicas == 7, what="7 replicas")

    set_first("200")
    refused = fleet.wait_for(
        lambda seen: seen["two"] if seen["two"].is_active is False else None, what="the HPA says that it cannot"
    )
    assert refused.reason == "FailedGetExternalMetric"
    assert 'metric "second": the backend refuses the query: ' in refused.message
    wait_for_refusals(8)
    held = fleet.look()["two"]
    assert (held.replicas, held.generation, held.is_active) == (7, refused.generation, False)

    chain.adapter.write_config(chain.build_config())
    fleet.wait_for_replicas({"two": 2})


def test_apiserver_complains_of_nothing_about_the_group_for_three_minutes(
    control_plane: ControlPlane, table: Table
) -> None:
    """From when the adapter is found good, through all faults and repairs: no warning, no error names the group."""
    time.sleep(max(0.0, table.available_s + LOG_WINDOW_S - time.monotonic()))  # the promise is about a time
    assert find_complaints(control_plane.read_log("kube-apiserver")[table.log_offset :]) == []


def find_complaints(log: str) -> Sequence[str]:
    """Return the lines of a klog *log* that complain about the group or its server: W, E, F, or words of failure."""
    names = (GROUP, f"{SERVICE}.{NAMESPACE}", f"{NAMESPACE}/{SERVICE}")
    is_complaint = re.compile(r"^[WEF]\d|fail|error|unable", re.IGNORECASE).search
    return [line for line in log.splitlines() if any(name in line for name in names) and is_complaint(line)]
