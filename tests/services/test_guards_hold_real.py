"""What guards do over time and cost, on a real Prometheus: hold, two adapters of one tick, queries counted."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import AdapterServer, Reply
from tests.support.exporter import Exporter
from tests.support.observed import ObservedAdapter, count_queries
from tests.support.stand import check_status

HOLD_S = 4.0
RESOLUTION_S = 5.0
ROUNDS = 6


@pytest.fixture(params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


def read_time(reply: Reply) -> float:
    """Return the time of the first item, in Unix seconds."""
    return datetime.fromisoformat(reply.document["items"][0]["timestamp"]).timestamp()


def build_config(url: str, rules: Sequence[dict[str, Any]], *, resolution: str = "1s") -> dict[str, Any]:
    """Return a configuration of *rules*."""
    return {"prometheus": {"url": url, "timeout": "2s"}, "resolution": resolution, "metrics": list(rules)}


def test_hold_bridges_an_absent_backend_with_the_old_time_and_ends(binary: Path) -> None:
    """Prometheus is killed: the last number with its own old time for as long as `hold` says, then the error."""
    with Exporter("depth 7\n") as exporter, Prometheus(binary) as prometheus:
        prometheus.set_jobs([ScrapeJob(name="depth", targets=(exporter.target,))])
        prometheus.wait_for("depth")
        rules = [
            {"name": "held", "query": "sum(depth)", "hold": f"{HOLD_S:g}s"},
            {"name": "plain", "query": "sum(depth)"},
        ]
        with ObservedAdapter(build_config(prometheus.url, rules)) as adapter:
            adapter.wait_for(lambda reply: reply.code == 200, "held")
            good = adapter.ask("held")
            prometheus.kill()
            killed_s = time.time()
            check_status(adapter.wait_for(lambda reply: reply.code != 200, "plain"), "BackendUnavailable", 503)
            held = adapter.ask("held")
            assert held.values == good.values
            assert read_time(held) <= killed_s
            served: list[float] = [read_time(held)]

            def is_error(reply: Reply) -> bool:
                if reply.code == 200:
                    served.append(read_time(reply))
                return reply.code != 200

            check_status(adapter.wait_for(is_error, "held"), "BackendUnavailable", 503)
            assert HOLD_S - 1.5 < time.time() - killed_s < HOLD_S + 2.5  # ticks of a second at both ends
            assert len(set(served)) == 1
            assert sum(adapter.read_metric("depthgauge_held_answers_total").values()) >= 1
            prometheus.start()
            assert adapter.wait_for(lambda reply: reply.code == 200, "held").values == ["7"]


def test_hold_bridges_a_frozen_backend(binary: Path) -> None:
    """No answer in time is an absent backend too."""
    with Exporter("depth 7\n") as exporter, Prometheus(binary) as prometheus:
        prometheus.set_jobs([ScrapeJob(name="depth", targets=(exporter.target,))])
        prometheus.wait_for("depth")
        rules = [
            {"name": "held", "query": "sum(depth)", "hold": "5m"},
            {"name": "plain", "query": "sum(depth)"},
        ]
        with AdapterServer(build_config(prometheus.url, rules)) as adapter:
            adapter.wait_for(lambda reply: reply.code == 200, "held")
            prometheus.pause()
            frozen_s = time.time()
            check_status(adapter.wait_for(lambda reply: reply.code != 200, "plain"), "DeadlineExceeded", 504)
            held = adapter.ask("held")
            assert held.values == ["7"]
            assert read_time(held) <= frozen_s


def test_hold_never_bridges_an_answer_that_was_refused(binary: Path) -> None:
    """Stale, Incomplete and RequirementFailed come through at once, however long the rule may hold."""
    hold = {"hold": "10m"}
    with Exporter("fed 7\nready 1\n") as exporter, Exporter() as ageing:
        jobs = [ScrapeJob(name="depth", targets=(exporter.target, ageing.target))]
        with Prometheus(binary, jobs=jobs) as prometheus:
            prometheus.wait_for("fed and on () (count(up == 1) == 2)")
            rules: list[dict[str, Any]] = [
                {"name": "fed", "query": "sum(fed)", **hold},
                {"name": "required", "query": "sum(fed)", "guards": {"require": "ready == 1"}, **hold},
                {"name": "ageing", "query": "sum(ageing)", "guards": {"maxAge": "4s"}, **hold},
            ]
            with AdapterServer(build_config(prometheus.url, rules)) as adapter:
                ageing.set(f"ageing 8 {int(time.time() * 1000)}\n")  # it repeats this instant
                for rule in rules:
                    adapter.wait_for(lambda reply: reply.code == 200, str(rule["name"]))
                check_status(adapter.wait_for(lambda reply: reply.code != 200, "ageing"), "Stale", 503)
                exporter.set("fed 7\nready 0\n")
                check_status(adapter.wait_for(lambda reply: reply.code != 200, "required"), "RequirementFailed", 503)
                exporter.stop()
                check_status(adapter.wait_for(lambda reply: reply.code != 200, "fed"), "Incomplete", 503)


@dataclass(frozen=True, slots=True)
class Mixed:
    """A backend with everything in it: a fresh series, an old one, a dead target, a drained queue."""

    prometheus: Prometheus
    doomed: Exporter
    rules: Sequence[dict[str, Any]]

    @property
    def names(self) -> list[str]:
        """The metrics."""
        return [str(rule["name"]) for rule in self.rules]


@pytest.fixture
def mixed(binary: Path) -> Iterator[Mixed]:
    """All targets are up."""
    old_ms = int((time.time() - 180) * 1000)
    with ExitStack() as stack:
        good = stack.enter_context(Exporter(f'depth{{queue="good"}} 1\nold{{queue="old"}} 2 {old_ms}\n'))
        doomed = stack.enter_context(Exporter('depth{queue="doomed"} 3\n'))
        jobs = [ScrapeJob(name="x", targets=(good.target, doomed.target), interval_s=0.5)]
        prometheus = stack.enter_context(Prometheus(binary, jobs=jobs))
        prometheus.wait_for("old and on () (count(depth) == 2)")
        rules: list[dict[str, Any]] = [
            {"name": "depth", "query": "sum by (queue) (depth)"},
            {"name": "total", "query": "sum(depth) or vector(0)"},
            {"name": "old", "query": "sum by (queue) (old)"},
            {"name": "pushed", "query": "sum by (queue) (depth{$matchers})"},
            {"name": "redundant", "query": "max(depth)", "guards": {"tolerateLost": "any"}},
            {"name": "zero", "query": "sum(nothing)", "empty": {"zeroWhile": 'up{job="x"} == 1'}},
        ]
        yield Mixed(prometheus, doomed, rules)


def wait_for_middle_of_tick() -> float:
    """Return the tick that now is in, once it is past its first second and far from its end (Unix seconds).

    What was scraped before the tick is committed by then, and the tests have time to ask before the next one.
    """
    while not 1.0 < time.time() % RESOLUTION_S < 2.0:
        time.sleep(0.02)
    return time.time() // RESOLUTION_S


def ask_within_one_tick(adapters: Sequence[AdapterServer], questions: Sequence[tuple[str, str]]) -> list[list[Reply]]:
    """Return each adapter's answers to *questions* (metric, selector), all asked within one tick."""
    for _ in range(ROUNDS):
        tick = wait_for_middle_of_tick()
        answers = [[adapter.ask(metric, selector=selector) for metric, selector in questions] for adapter in adapters]
        if time.time() // RESOLUTION_S == tick:
            return answers
    raise AssertionError(f"a round of questions took longer than a tick, {ROUNDS} times")


def test_two_adapters_agree_on_every_answer_of_a_tick(mixed: Mixed) -> None:
    """Two replicas asked in the same tick give the same numbers, times, Reasons and messages, before and in trouble."""
    questions = [(name, "") for name in mixed.names]
    questions += [(name, f"queue={queue}") for name in ("depth", "pushed") for queue in ("good", "doomed", "typo")]
    config = build_config(mixed.prometheus.url, mixed.rules, resolution=f"{RESOLUTION_S:g}s")
    with AdapterServer(config) as one, AdapterServer(config) as other:
        for name in mixed.names:  # the first tick may be older than a first scrape
            one.wait_for(lambda reply: reply.reason != "NoSamples", name)
        reasons: set[str] = set()
        for is_in_trouble in (False, True):
            if is_in_trouble:
                mixed.doomed.stop()
                one.wait_for(lambda reply: reply.reason == "Incomplete", "total")
            first, second = ask_within_one_tick((one, other), questions)
            assert [reply.document for reply in first] == [reply.document for reply in second]
            reasons |= {reply.reason for reply in first}
        assert reasons == {"", "Stale", "Incomplete", "NoMatch", "RequirementFailed"}


def test_guards_cost_one_query_a_rule_and_one_a_backend(mixed: Mixed) -> None:
    """Healthy: two queries for each rule and one for the backend, a tick, however many ask; more while one is down."""
    guarded = [rule for rule in mixed.rules if rule["name"] in {"depth", "total", "old", "redundant"}]
    names = [str(rule["name"]) for rule in guarded]
    config = build_config(mixed.prometheus.url, guarded, resolution=f"{RESOLUTION_S:g}s")
    questions = [(name, selector) for name in names for selector in ("", "queue=good", "queue=other")] * 3
    with ObservedAdapter(config) as adapter:
        adapter.wait_for(lambda reply: reply.code == 200, "total")
        assert count_cost(mixed.prometheus, adapter, questions) == 2 * len(names) + 1
        assert count_cost(mixed.prometheus, adapter, [("depth", "")] * 5) == 2 + 1
        assert count_cost(mixed.prometheus, adapter, []) == 0
        mixed.doomed.stop()
        adapter.wait_for(lambda reply: reply.reason == "Incomplete", "total")
        which_fed, who_is_left = len(names), 1  # the second only for the rule with tolerateLost: any
        assert count_cost(mixed.prometheus, adapter, questions) == 2 * len(names) + 1 + which_fed + who_is_left


def count_cost(prometheus: Prometheus, adapter: ObservedAdapter, questions: Sequence[tuple[str, str]]) -> float:
    """Return how many queries reach Prometheus for *questions*, all asked in a tick in which nothing was asked yet.

    Counted by Prometheus, and by the adapter's own self-metric, which must say the same.
    """
    for _ in range(ROUNDS):
        asked_before = time.time() // RESOLUTION_S
        while time.time() // RESOLUTION_S == asked_before:
            time.sleep(0.02)
        tick = wait_for_middle_of_tick()
        seen, told = count_queries(prometheus), adapter.read_metric("depthgauge_backend_queries_total")
        for metric, selector in questions:
            adapter.ask(metric, selector=selector)
        if time.time() // RESOLUTION_S == tick:
            told_now = adapter.read_metric("depthgauge_backend_queries_total")
            cost = count_queries(prometheus) - seen
            assert cost == sum(told_now.values()) - sum(told.values())
            return cost
    raise AssertionError(f"a round of questions took longer than a tick, {ROUNDS} times")
