"""Lost targets on a real Prometheus: three shards behind one sum, of which some die, leave or come back."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import Reply
from tests.support.exporter import Exporter
from tests.support.observed import ObservedAdapter
from tests.support.stand import check_status

JOB = "shards"
SHARDS = 3
CHANGE_DEADLINE_S = 20.0
SUM_BY = "sum by (queue) (shard_depth)"

RULES: list[dict[str, Any]] = [
    {"name": "by-queue", "query": SUM_BY},
    {"name": "total", "query": "sum(shard_depth)"},
    {"name": "plain", "query": "shard_depth"},
    {"name": "or-zero", "query": "sum(shard_depth) or vector(0)"},
    {"name": "by-queue-or-zero", "query": f"{SUM_BY} or vector(0)"},
    {"name": "pushed", "query": "sum by (queue) (shard_depth{$matchers})"},
    {"name": "pushed-or-zero", "query": "sum(shard_depth{$matchers}) or vector(0)"},
    {"name": "redundant", "query": "max by (queue) (shard_depth)", "guards": {"tolerateLost": "any"}},
    {"name": "redundant-or-zero", "query": "max(shard_depth) or vector(0)", "guards": {"tolerateLost": "any"}},
    {"name": "unguarded", "query": "sum(shard_depth) or vector(0)", "guards": {"lostTargets": "0s"}},
    {"name": "counted", "query": SUM_BY, "guards": {"lostTargets": "0s", "minSeries": 5}},
]
STRICT = ("total", "or-zero", "by-queue", "by-queue-or-zero", "plain", "pushed", "pushed-or-zero")


@dataclass
class World:
    """Three shards that all feed queue `shared`; shard N alone feeds queue `only-N`, and one names the shards' file."""

    exporters: Sequence[Exporter]
    targets_file: Path
    prometheus: Prometheus
    adapter: ObservedAdapter

    def configure(self, exporters: Sequence[Exporter]) -> None:
        """Have service discovery name *exporters* as the shards."""
        written = self.targets_file.with_name("writing.tmp")
        written.write_text(json.dumps([{"targets": [exporter.target for exporter in exporters], "labels": {}}]))
        written.replace(self.targets_file)

    def restore(self) -> None:
        """Bring all shards back, and return when the adapter says so."""
        for number, exporter in enumerate(self.exporters):
            exporter.stop()
            exporter.set(f'shard_depth{{queue="shared"}} 10\nshard_depth{{queue="only-{number}"}} {number + 1}\n')
            exporter.start()
        self.configure(self.exporters)
        self.adapter.wait_for(lambda reply: reply.code == 200 and reply.values == ["36"], "total")

    def kill(self, *numbers: int) -> None:
        """End shards as a crash would."""
        for number in numbers:
            self.exporters[number].stop()

    def wait_for_each(self, reason: str, metrics: Sequence[str]) -> list[Reply]:
        """Return, for each of *metrics*, the first answer that is not its whole number, and check its *reason*.

        They are asked in turn, so that no lower number that comes first is passed over.
        """
        wholes = {metric: self.adapter.ask(metric) for metric in metrics}
        changed: dict[str, Reply] = {}
        deadline_s = time.monotonic() + CHANGE_DEADLINE_S
        while len(changed) < len(metrics):
            for metric in wholes.keys() - changed.keys():
                reply = self.adapter.ask(metric)
                if reply.code != 200 or reply.values != wholes[metric].values:
                    check_status(reply, reason, 503)
                    changed[metric] = reply
            assert time.monotonic() < deadline_s, f"still the same: {wholes.keys() - changed.keys()}"
        return list(changed.values())

    def wait_for(self, reason: str, metric: str) -> Reply:
        """Return the first answer about *metric* that is not its whole number, and check its *reason*."""
        return self.wait_for_each(reason, [metric])[0]


@pytest.fixture(scope="module", params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.fixture(scope="module")
def standing(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The shards behind a Prometheus behind the adapter, for all tests of this file."""
    targets_file = tmp_path_factory.mktemp("discovery") / "targets.json"
    with ExitStack() as stack:
        exporters = [stack.enter_context(Exporter()) for _ in range(SHARDS)]
        job = ScrapeJob(name=JOB, file_sd=(targets_file,))
        targets_file.write_text("[]")
        prometheus = stack.enter_context(Prometheus(binary, jobs=[job], scrape_interval_s=0.5))
        config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": RULES}
        adapter = stack.enter_context(ObservedAdapter(config))
        yield World(exporters, targets_file, prometheus, adapter)


@pytest.fixture
def world(standing: World) -> World:
    """The same, with all shards up."""
    standing.restore()
    return standing


def test_p4_one_killed_shard_is_incomplete_within_two_scrapes(world: World) -> None:
    """The first answer that is not the whole sum names the dead target, at its first or second failed scrape."""
    killed = world.exporters[1].target
    world.kill(1)
    reply = world.wait_for("Incomplete", "by-queue")
    window = f'(up{{instance="{killed}"}}[30s])'
    failed = world.prometheus.query(f"count_over_time{window} - sum_over_time{window}")
    assert f"{JOB}/{killed}" in reply.message
    assert all(other.target not in reply.message for other in world.exporters if other.target != killed)
    assert float(failed[0]["value"][1]) <= 2


def test_p4_z3_one_killed_shard_is_incomplete_for_each_shape_of_query(world: World) -> None:
    """No smaller number comes first, also behind `or vector(0)` and for a rule that is pushed down."""
    world.kill(1)
    for reply in world.wait_for_each("Incomplete", STRICT):
        assert f"{JOB}/{world.exporters[1].target}" in reply.message


@pytest.mark.parametrize("metric", ["by-queue", "plain", "pushed"])
def test_p4_killed_shard_concerns_only_what_it_fed(world: World, metric: str) -> None:
    """A queue of another shard goes on, one of the dead shard and one that all of them feed do not."""
    world.kill(1)
    world.wait_for("Incomplete", metric)
    check_status(world.adapter.ask(metric, selector="queue=only-1"), "Incomplete", 503)
    check_status(world.adapter.ask(metric, selector="queue=shared"), "Incomplete", 503)
    assert world.adapter.ask(metric, selector="queue=only-0").values == ["1"]
    assert world.adapter.ask(metric, selector="queue=only-2").values == ["3"]


def test_p4_fewer_inputs_than_told_are_incomplete(world: World) -> None:
    """`minSeries` says so without `up`, with both numbers."""
    world.kill(1)
    reply = world.wait_for("Incomplete", "counted")
    assert "4 input series" in reply.message
    assert "guards.minSeries" in reply.message


def test_p4_all_killed_shards_are_incomplete(world: World) -> None:
    """Nothing left is no drained queue: Incomplete for every shape of query, never NoSamples and never 0."""
    world.kill(0, 1, 2)
    targets = [exporter.target for exporter in world.exporters]
    for metric in (*STRICT, "redundant", "redundant-or-zero"):
        reply = world.adapter.wait_for(lambda reply: all(target in str(reply.document) for target in targets), metric)
        check_status(reply, "Incomplete", 503)
    check_status(world.adapter.ask("by-queue", selector="queue=only-1"), "Incomplete", 503)


def test_p4_redundant_shards_are_incomplete_when_the_last_one_is_gone(world: World) -> None:
    """`tolerateLost: any` goes on with one shard of three, for each queue by itself, and ends with the last."""
    world.kill(0, 1)
    world.adapter.wait_for(lambda reply: reply.reason == "Incomplete", "total")
    assert world.adapter.ask("redundant", selector="queue=shared").values == ["10"]
    assert world.adapter.ask("redundant", selector="queue=only-2").values == ["3"]
    check_status(world.adapter.ask("redundant", selector="queue=only-1"), "Incomplete", 503)
    assert world.adapter.ask("redundant-or-zero").values == ["10"]
    world.kill(2)
    for metric in ("redundant-or-zero", "redundant"):
        world.adapter.wait_for(lambda reply: reply.code != 200, metric)
        check_status(world.adapter.ask(metric, selector="queue=shared"), "Incomplete", 503)


def test_z3_what_the_guard_is_for(world: World) -> None:
    """With the guard off the same outage is a smaller number, and then 0, as PromQL says."""
    world.kill(1)
    world.adapter.wait_for(lambda reply: reply.values == ["24"], "unguarded")
    world.kill(0, 2)
    world.adapter.wait_for(lambda reply: reply.values == ["0"], "unguarded")


def test_p4_removed_shard_is_no_error(world: World) -> None:
    """A target that leaves service discovery is no loss: the sum goes to that of the others without an error."""
    gone = world.exporters[1]
    world.configure([exporter for exporter in world.exporters if exporter is not gone])
    seen: list[Reply] = []

    def is_settled(reply: Reply) -> bool:
        seen.append(reply)
        return reply.code != 200 or reply.values == ["24"]

    for metric in ("total", "or-zero"):
        world.adapter.wait_for(is_settled, metric)
    assert {(reply.code, *reply.values) for reply in seen} <= {(200, "36"), (200, "24")}
    for metric in (*STRICT, "redundant"):
        assert world.adapter.ask(metric).code == 200
    check_status(world.adapter.ask("by-queue", selector="queue=only-1"), "NoMatch", 404)


def test_p4_killed_shard_that_is_removed_ends_the_loss(world: World) -> None:
    """Taking a dead target out of service discovery is the way to say that it will not come back."""
    world.kill(1)
    world.wait_for("Incomplete", "total")
    world.configure([world.exporters[0], world.exporters[2]])
    recovered = world.adapter.wait_for(lambda reply: reply.code == 200, "total")
    assert recovered.values == ["24"]


def test_p4_restarted_shard_ends_the_loss(world: World) -> None:
    """The first number after the outage is the whole sum."""
    world.kill(1)
    for metric in STRICT:
        world.adapter.wait_for(lambda reply: reply.reason == "Incomplete", metric)
    world.exporters[1].start()
    for metric, whole in (("total", "36"), ("or-zero", "36"), ("pushed-or-zero", "36")):
        recovered = world.adapter.wait_for(lambda reply: reply.code == 200, metric)
        assert recovered.values == [whole]
    assert world.adapter.ask("by-queue", selector="queue=shared").values == ["30"]
