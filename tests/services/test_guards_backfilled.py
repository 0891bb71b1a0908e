"""Hours after a target died, on a real Prometheus whose past is written into blocks."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadgen.parts.process import find_free_port
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import AdapterServer
from tests.support.blocks import backfill
from tests.support.exporter import Exporter
from tests.support.stand import check_status

HOUR_S = 3600.0
DEAD_QUEUE, LIVE_QUEUE = "dead", "live"

RULES: list[dict[str, Any]] = [
    {"name": "by-queue", "query": "sum by (queue) (depth)"},
    {"name": "total", "query": "sum(depth)"},
    {"name": "plain", "query": "depth"},
    {"name": "or-zero", "query": "sum(depth) or vector(0)"},
    {"name": "pushed", "query": "sum by (queue) (depth{$matchers})"},
    {"name": "redundant", "query": "max(depth)", "guards": {"tolerateLost": "any"}},
    {"name": "rate", "query": "sum(rate(depth[5m]))"},
    {"name": "short", "query": "sum(depth)", "guards": {"lostTargets": "30m"}},
]
GUARDED = ("by-queue", "total", "plain", "or-zero", "pushed")


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The adapter in front of a Prometheus with one dead target, *dead*, and perhaps one that is up."""

    adapter: AdapterServer
    dead: str


@contextmanager
def stand_after(binary: Path, *, dead_for_s: float, with_live: bool) -> Iterator[Aftermath]:
    """Yield a world in which a target died *dead_for_s* ago, after half an hour of samples; it is configured still."""
    with ExitStack() as stack:
        dead = f"127.0.0.1:{find_free_port()}"
        live = [stack.enter_context(Exporter(f'depth{{queue="{LIVE_QUEUE}"}} 3\n')).target] if with_live else []
        prometheus = Prometheus(binary, jobs=[ScrapeJob(name="shards", targets=(dead, *live))])
        stack.callback(prometheus.close)
        ended_s = time.time() - dead_for_s
        series = {f'depth{{job="shards",instance="{dead}",queue="{DEAD_QUEUE}"}}': 7.0}
        backfill(prometheus, series, begin_s=ended_s - HOUR_S / 2, end_s=ended_s)
        prometheus.start()
        prometheus.wait_for(f'up{{instance="{dead}"}} == 0 and on () (count(up) == {1 + len(live)})')
        config = {"prometheus": {"url": prometheus.url}, "resolution": "1s", "metrics": RULES}
        adapter = stack.enter_context(AdapterServer(config))
        adapter.wait_for(lambda reply: reply.reason != "NoSamples", "total")
        if with_live:  # the first tick may be older than its first scrape
            adapter.wait_for(lambda reply: reply.code == 200, "by-queue", selector=f"queue={LIVE_QUEUE}")
        yield Aftermath(adapter, dead)


@pytest.fixture(params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.mark.parametrize("dead_for_h", [1, 23])
def test_p4_z3_lost_shard_is_incomplete_for_a_day(binary: Path, dead_for_h: int) -> None:
    """The lower sum never becomes good by waiting: the target that fed it is down, and named; others go on."""
    with stand_after(binary, dead_for_s=dead_for_h * HOUR_S, with_live=True) as world:
        for metric in GUARDED:
            reply = world.adapter.ask(metric)
            check_status(reply, "Incomplete", 503)
            assert world.dead in reply.message
        check_status(world.adapter.ask("by-queue", selector=f"queue={DEAD_QUEUE}"), "Incomplete", 503)
        assert world.adapter.ask("by-queue", selector=f"queue={LIVE_QUEUE}").values == ["3"]
        assert world.adapter.ask("redundant").values == ["3"]


@pytest.mark.parametrize("dead_for_h", [1, 23])
def test_p4_z3_last_shard_is_incomplete_for_a_day(binary: Path, dead_for_h: int) -> None:
    """Nothing is left: Incomplete all the same, not NoSamples, and not the 0 of `or vector(0)`."""
    with stand_after(binary, dead_for_s=dead_for_h * HOUR_S, with_live=False) as world:
        for metric in (*GUARDED, "redundant", "rate"):
            reply = world.adapter.ask(metric)
            check_status(reply, "Incomplete", 503)
            assert world.dead in reply.message


def test_p4_window_of_lost_targets_is_the_configured_one(prometheus2_binary: Path) -> None:
    """Past the window the rest is the whole: that is what the key says, and why it is a day by default."""
    with stand_after(prometheus2_binary, dead_for_s=HOUR_S, with_live=True) as world:
        assert world.adapter.ask("short").values == ["3"]
        check_status(world.adapter.ask("total"), "Incomplete", 503)
    with stand_after(prometheus2_binary, dead_for_s=25 * HOUR_S, with_live=True) as world:
        assert world.adapter.ask("total").values == ["3"]
