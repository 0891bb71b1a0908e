"""Zero with evidence, on a real Prometheus: a drained queue told apart from a dead exporter and from a typo (Z6)."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import AdapterServer, Reply
from tests.support.exporter import Exporter
from tests.support.stand import check_status

ZERO = {"empty": {"zeroWhile": 'up{job="x"} == 1'}}
QUEUES = 'depth{queue="a"} 7\ndepth{queue="b"} 8\n'
RULES: list[dict[str, Any]] = [
    {"name": "depth", "query": "sum by (queue) (depth)", **ZERO},
    {"name": "total", "query": "sum(depth)", **ZERO},
    {"name": "pushed", "query": "sum by (queue) (depth{$matchers})", **ZERO},
    {"name": "unguarded", "query": "sum by (queue) (depth)", "guards": {"lostTargets": "0s"}, **ZERO},
    {"name": "short", "query": "sum by (queue) (depth)", "guards": {"maxAge": "5s"}, **ZERO},
    {"name": "default", "query": "sum(depth)"},
]
BY_QUEUE = ("depth", "pushed", "unguarded")


@dataclass(frozen=True, slots=True)
class World:
    """The exporter of the queues, a second target of the same job that never has any, Prometheus and the adapter."""

    exporter: Exporter
    other: Exporter
    prometheus: Prometheus
    adapter: AdapterServer

    def drain(self, *left: str) -> None:
        """Remove the series of all queues but *left*, as an exporter does with empty ones."""
        self.exporter.set("up_and_well 1\n" + "".join(line + "\n" for line in left))

    def wait_until_gone(self, queue: str) -> None:
        """Return when Prometheus no longer has *queue*."""
        self.prometheus.wait_for(f'absent(depth{{queue="{queue}"}})')

    def wait_for(self, value: str, metric: str, selector: str = "") -> None:
        """Return when *metric* is *value*; the number before it is the only other answer on the way."""
        seen: list[Reply] = []

        def is_wanted(reply: Reply) -> bool:
            seen.append(reply)
            return reply.code != 200 or reply.values == [value]

        self.adapter.wait_for(is_wanted, metric, selector=selector)
        assert seen[-1].code == 200, seen[-1].document


@pytest.fixture(scope="module", params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.fixture(scope="module")
def standing(binary: Path) -> Iterator[World]:
    """The world for all tests of this file."""
    with ExitStack() as stack:
        exporter, other = (stack.enter_context(Exporter(text)) for text in (QUEUES, "other 1\n"))
        prometheus = stack.enter_context(Prometheus(binary))
        config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": RULES}
        adapter = stack.enter_context(AdapterServer(config))
        yield World(exporter, other, prometheus, adapter)


@pytest.fixture
def world(standing: World) -> World:
    """The same, with both queues filled and both targets up."""
    for exporter, text in ((standing.exporter, QUEUES), (standing.other, "other 1\n")):
        exporter.stop()
        exporter.set(text)
        exporter.start()
    standing.prometheus.set_jobs(
        [ScrapeJob(name="x", targets=(standing.exporter.target, standing.other.target), interval_s=0.5)]
    )
    standing.adapter.wait_for(lambda reply: reply.code == 200 and reply.values == ["15"], "total")
    return standing


@pytest.mark.parametrize("metric", BY_QUEUE)
def test_z6_drained_queue_is_zero_while_its_exporter_is_up(world: World, metric: str) -> None:
    """One queue's gauge vanishes: 0 for it, the other goes on, and a queue that never was is NoMatch."""
    world.drain('depth{queue="b"} 8')
    world.wait_for("0", metric, "queue=a")
    assert world.adapter.ask(metric, selector="queue=b").values == ["8"]
    check_status(world.adapter.ask(metric, selector="queue=typo"), "NoMatch", 404)


def test_z6_all_queues_drained_are_zero_and_a_typo_is_none(world: World) -> None:
    """Nothing is left: 0 for what existed and for the total, 404 for what never did, and for a rule without the key."""
    world.drain()
    world.wait_for("0", "total")
    for metric in BY_QUEUE:
        world.wait_for("0", metric, "queue=a")
        assert world.adapter.ask(metric, selector="queue=typo").code == 404
    check_status(world.adapter.ask("default"), "NoSamples", 404)


@pytest.mark.parametrize("metric", BY_QUEUE)
def test_z6_dead_exporter_is_no_zero(world: World, metric: str) -> None:
    """The gauge vanishes with its exporter: an error, whichever guard is the first to say so."""
    world.exporter.stop()
    seen = world.adapter.wait_for(
        lambda reply: reply.values != ["7"] if reply.code == 200 else True, metric, selector="queue=a"
    )
    check_status(seen, "RequirementFailed" if metric == "unguarded" else "Incomplete", 503)
    assert world.exporter.target in seen.message


def test_z6_exporter_that_dies_after_the_queue_drained_is_no_zero(world: World) -> None:
    """0 ends with its evidence."""
    world.drain()
    world.wait_for("0", "unguarded", "queue=a")
    world.exporter.stop()
    gone = world.adapter.wait_for(lambda reply: reply.code != 200, "unguarded", selector="queue=a")
    check_status(gone, "RequirementFailed", 503)


def test_z6_absent_exporter_is_no_zero(world: World) -> None:
    """The targets leave service discovery, `up` with them: the evidence is missing, and that is what it says."""
    world.drain()
    for metric in BY_QUEUE:
        world.wait_for("0", metric, "queue=a")
    world.prometheus.set_jobs([ScrapeJob(name="x")])
    for metric in BY_QUEUE:
        gone = world.adapter.wait_for(lambda reply: reply.code != 200, metric, selector="queue=a")
        check_status(gone, "RequirementFailed", 503)
        assert "empty.zeroWhile" in gone.message


def test_z6_evidence_that_is_old_is_no_zero(world: World) -> None:
    """A job that is gone as a whole leaves `up` at 1 for five minutes: the 0 ends with maxAge all the same."""
    world.drain()
    world.wait_for("0", "short", "queue=a")
    world.prometheus.set_jobs([])
    gone = world.adapter.wait_for(lambda reply: reply.code != 200, "short", selector="queue=a")
    check_status(gone, "RequirementFailed", 503)
    assert world.exporter.target in gone.message
    assert len(world.prometheus.query('up{job="x"} == 1')) == 2


@pytest.mark.parametrize("metric", BY_QUEUE)
def test_z6_other_matching_target_down_is_no_zero(world: World, metric: str) -> None:
    """One target of the job is up and one is down: the queue may be where nobody looks."""
    world.drain()
    world.wait_for("0", metric, "queue=a")
    world.other.stop()
    down = world.adapter.wait_for(lambda reply: reply.code != 200, metric, selector="queue=a")
    check_status(down, "RequirementFailed", 503)
    assert world.other.target in down.message
