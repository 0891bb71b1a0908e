"""The age of what stands behind a number, on a real Prometheus: repeated, ended, pushed, recorded, frozen samples."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from adapter.cli.program import app
from loadgen.parts import find_part
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import Reply
from tests.support.exporter import Exporter
from tests.support.observed import ObservedAdapter
from tests.support.pushgateway import Pushgateway
from tests.support.stand import check_status

QUEUES = 1000
OLD_S = 180.0
"""More than the default maxAge of 120 s; Prometheus looks back 300 s, which leaves two minutes to ask in."""

UNDERIVED_GUARDS = ("maxAge", "lostTargets")
UNDERIVED = '{__name__=~"left|right",queue="a"}'
SHAPES_STALE = {
    "equal-labels": 'max by (queue) (left{queue="a"} or right{queue="a"})',
    "sum-of-sums": "sum(left) + sum(right)",
    "one-to-one": "left + right",
    "joined": "left * on (queue) group_left () right",
    "topk": "topk(1, sum by (queue) (many))",
    "without": "sum without (instance) (many)",
    "replaced": 'label_replace(many, "to", "$1", "queue", "(.*)")',
    "counted": "count(many)",
    "scalar": "scalar(sum(right))",
    "or-zero": "sum(right) or vector(0)",
}
SHAPES_FRESH = {
    "fresh-equal-labels": "max by (queue) (left or fresh)",
    "fresh-sum-of-sums": "sum(left) + sum(fresh)",
    "fresh-topk": "topk(1, sum by (queue) (left))",
    "fresh-without": "sum without (instance) (left)",
    "fresh-joined": "left * on (queue) group_left () fresh",
    "fresh-or-zero": "sum(left) or vector(0)",
    "fresh-from-nothing": "sum(nothing) or vector(0)",
}
QUERIES = {
    **SHAPES_STALE,
    **SHAPES_FRESH,
    "late": "late",
    "many": "many",
    "many-by": "sum by (queue) (many)",
    "many-above": "many > 1",
    "recorded": "queue:right:sum",
    "by-name": UNDERIVED,
}


@dataclass(frozen=True, slots=True)
class World:
    """Samples of known ages; *old_at_s* is the time of the old ones, in Unix seconds, to the millisecond."""

    adapter: ObservedAdapter
    old_at_s: float


@pytest.fixture(scope="module", params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.fixture(scope="module")
def world(binary: Path) -> Iterator[World]:
    """An exporter that repeats old timestamps: of `late`, of `right`, and of one of the thousand queues of `many`."""
    old_ms = int((time.time() - OLD_S) * 1000)
    many = [f'many{{queue="q{number}"}} 5{f" {old_ms}" if number == 7 else ""}' for number in range(QUEUES)]
    others = [f'late{{queue="a"}} 40 {old_ms}', f'right{{queue="a"}} 1 {old_ms}', 'left{queue="a"} 2']
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter("\n".join([*many, *others, 'fresh{queue="a"} 3', ""])))
        recording = {"name": "recording", "rules": [{"record": "queue:right:sum", "expr": "sum by (queue) (right)"}]}
        prometheus = stack.enter_context(
            Prometheus(binary, jobs=[ScrapeJob(name="depth", targets=(exporter.target,))], rule_groups=[recording])
        )
        prometheus.wait_for("queue:right:sum and on () left")
        rules: list[dict[str, Any]] = [{"name": name, "query": query} for name, query in QUERIES.items()]
        rules.append({"name": "late-accepted", "query": "late", "guards": {"maxAge": "10m"}})
        config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": rules}
        adapter = stack.enter_context(ObservedAdapter(config))
        adapter.wait_for(lambda reply: reply.code == 200, "recorded")
        yield World(adapter, old_ms / 1000)


def run(*arguments: str | Path) -> Result:
    """Run a command as from a pipe."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"DEPTHGAUGE_CONFIG": None})


def read_time(reply: Reply) -> float:
    """Return the time of the first item, in Unix seconds."""
    return datetime.fromisoformat(reply.document["items"][0]["timestamp"]).timestamp()


def test_s5_repeated_old_timestamp_is_stale_and_names_the_key(world: World) -> None:
    """The scrape is fresh, the sample is not; with the key that the message names raised it is a number of its time."""
    reply = world.adapter.ask("late")
    check_status(reply, "Stale", 503)
    assert "guards.maxAge" in reply.message
    assert "120 s" in reply.message
    accepted = world.adapter.ask("late-accepted")
    assert accepted.values == ["40"]
    assert read_time(accepted) == pytest.approx(world.old_at_s, abs=1.0)


@pytest.mark.parametrize("metric", ["many", "many-by", "many-above"])
def test_stale_queue_among_a_thousand_fails_only_who_selects_it(world: World, metric: str) -> None:
    """One old queue of a snapshot: those who ask for another one do not notice, those who ask for it are told."""
    stale = world.adapter.ask(metric, selector="queue=q7")
    check_status(stale, "Stale", 503)
    assert "q7" in stale.message
    check_status(world.adapter.ask(metric, selector="queue in (q6,q7)"), "Stale", 503)
    check_status(world.adapter.ask(metric), "Stale", 503)
    assert world.adapter.ask(metric, selector="queue=q8").values == ["5"]
    assert len(world.adapter.ask(metric, selector="queue!=q7").values) == QUEUES - 1


@pytest.mark.parametrize("metric", SHAPES_STALE)
def test_old_input_makes_the_number_stale_whatever_hides_it(world: World, metric: str) -> None:
    """One old sample among the inputs is found behind every shape of query."""
    check_status(world.adapter.ask(metric), "Stale", 503)


@pytest.mark.parametrize("metric", SHAPES_FRESH)
def test_fresh_inputs_are_a_number_whatever_the_query(world: World, metric: str) -> None:
    """The same shapes over fresh samples alone are served: the guard refuses for a reason only."""
    assert world.adapter.ask(metric).code == 200


@pytest.mark.parametrize("metric", ["recorded", "by-name"])
def test_guard_that_cannot_be_derived_is_named(world: World, metric: str) -> None:
    """A recorded series, and one without a name, are served; self-metric, check and explain say what is off."""
    assert world.adapter.ask(metric).code == 200
    said = world.adapter.read_metric("depthgauge_guard_underived")
    named = {dict(labels)["guard"] for labels, value in said.items() if ("metric", metric) in labels and value == 1}
    assert named == set(UNDERIVED_GUARDS)
    checked = json.loads(run("check", "-c", world.adapter.config_path, "-o", "json").stdout)
    messages = [found["message"] for found in checked["findings"] if found["metric"] == metric]
    for guard in UNDERIVED_GUARDS:
        assert any(guard in message for message in messages), messages
    explained = json.loads(run("explain", metric, "-c", world.adapter.config_path, "-o", "json").stdout)
    steps = [step["detail"] for step in explained["steps"] if "not derivable" in step["detail"]]
    for guard in UNDERIVED_GUARDS:
        assert any(step.startswith(guard) for step in steps), explained


def test_guards_that_can_be_derived_are_not_named(world: World) -> None:
    """The self-metric is there for the others only."""
    said = world.adapter.read_metric("depthgauge_guard_underived")
    assert {dict(labels)["metric"] for labels in said} == {"recorded", "by-name"}


def test_rate_over_an_ended_series_is_stale(binary: Path) -> None:
    """A rate has a value long after its series has ended: it is Stale as soon as the last sample is too old."""
    with Exporter("done_total 5\n") as exporter:
        job = ScrapeJob(name="depth", targets=(exporter.target,))
        with Prometheus(binary, jobs=[job]) as prometheus:
            prometheus.wait_for("rate(done_total[1m])")
            guards = {"maxAge": "4s"}
            rules = [
                {"name": "rate", "query": "sum(rate(done_total[1m]))", "guards": guards},
                {"name": "peak", "query": "max_over_time(done_total[1m])", "guards": guards},
                {"name": "unguarded", "query": "sum(rate(done_total[1m]))", "guards": {"maxAge": "0s"}},
            ]
            config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": rules}
            with ObservedAdapter(config) as adapter:
                for metric in ("rate", "peak"):
                    adapter.wait_for(lambda reply: reply.code == 200, metric)
                exporter.set("something_else 1\n")
                for metric in ("rate", "peak"):
                    stale = adapter.wait_for(lambda reply: reply.code != 200, metric)
                    check_status(stale, "Stale", 503)
                    assert "s old" in stale.message  # its last sample was found, further back than timestamp() looks
                assert adapter.ask("unguarded").values == ["0"]


def test_s3_frozen_then_restarted_without_the_job_is_an_error(binary: Path) -> None:
    """A backend that never answers is DeadlineExceeded; one that has only the old samples serves them within maxAge."""
    max_age_s = 10.0
    with Exporter("depth 90\n") as exporter:
        job = ScrapeJob(name="depth", targets=(exporter.target,))
        with Prometheus(binary, jobs=[job]) as prometheus:
            prometheus.wait_for("depth")
            rules = [{"name": "depth", "query": "sum(depth)", "guards": {"maxAge": f"{max_age_s:g}s"}}]
            backend = {"url": prometheus.url, "timeout": "1s"}
            with ObservedAdapter({"prometheus": backend, "resolution": "1s", "metrics": rules}) as adapter:
                assert adapter.wait_for(lambda reply: reply.code == 200, "depth").values == ["90"]
                prometheus.pause()
                frozen = adapter.wait_for(lambda reply: reply.code != 200, "depth")
                check_status(frozen, "DeadlineExceeded", 504)
                prometheus.kill()  # not stopped: the scrape that its end breaks off would be a target that is down
                prometheus.set_jobs([])
                prometheus.start()
                served: list[float] = []

                def is_stale(reply: Reply) -> bool:
                    if reply.code == 200:
                        served.append(time.time() - read_time(reply))
                    return reply.reason == "Stale"

                stale = adapter.wait_for(is_stale, "depth", timeout_s=2 * max_age_s)
                check_status(stale, "Stale", 503)
                assert max(served, default=0.0) < max_age_s + 1.5  # a tick is kept for a second
                assert prometheus.query("sum(depth)")[0]["value"][1] == "90"


def test_s1_pushed_gauge_of_a_dead_producer_is_stale(binary: Path) -> None:
    """The Pushgateway repeats a value for ever: `freshness` tells when it was pushed; without it it is a number."""
    gateway_binary = find_part("prometheus-pushgateway")
    assert gateway_binary is not None, "run: .venv/bin/python -m loadgen.parts ensure prometheus-pushgateway"
    with Pushgateway(gateway_binary) as gateway:
        gateway.push("alive", "queue_depth 1\n")
        job = ScrapeJob(name="pushed", targets=(gateway.target,), honor_labels=True)
        with Prometheus(binary, jobs=[job]) as prometheus:
            prometheus.wait_for("queue_depth")
            query = "sum by (job) (queue_depth)"
            guards = {"freshness": "min by (job) (push_time_seconds)", "maxAge": "5s"}
            rules = [
                {"name": "guarded", "query": query, "guards": guards},
                {"name": "unguarded", "query": query, "guards": {"maxAge": "5s"}},
            ]
            config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": rules}
            with ObservedAdapter(config) as adapter:
                pushed_at_s = time.time()
                gateway.push("dead", "queue_depth 40\n")
                good = adapter.wait_for(lambda reply: reply.code == 200, "guarded", selector="job=dead")
                assert good.values == ["40"]
                assert read_time(good) == pytest.approx(pushed_at_s, abs=1.0)
                stale = adapter.wait_for(lambda reply: reply.code != 200, "guarded", selector="job=dead")
                check_status(stale, "Stale", 503)
                assert time.time() - pushed_at_s > 5.0
                assert adapter.ask("unguarded", selector="job=dead").values == ["40"]
                gateway.push("alive", "queue_depth 2\n")
                alive = adapter.wait_for(lambda reply: reply.code == 200, "guarded", selector="job=alive")
                assert alive.values == ["2"]
                check_status(adapter.ask("guarded", selector="job=dead"), "Stale", 503)


def test_s1_age_of_an_hour_is_told(binary: Path) -> None:
    """The message says how old: a producer that pushed an hour ago."""
    pushed_s = int(time.time()) - 3600
    with Exporter(f"queue_depth 40\npush_time_seconds {pushed_s}\n") as exporter:
        job = ScrapeJob(name="pushed", targets=(exporter.target,))
        with Prometheus(binary, jobs=[job]) as prometheus:
            prometheus.wait_for("queue_depth")
            rules = [{"name": "depth", "query": "queue_depth", "guards": {"freshness": "push_time_seconds"}}]
            config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": rules}
            with ObservedAdapter(config) as adapter:
                reply = adapter.wait_for(lambda reply: reply.reason != "NoSamples", "depth")
                check_status(reply, "Stale", 503)
                assert " 36" in reply.message
                assert "s old" in reply.message
