"""A real Prometheus in trouble: who waits, who does not, and when the numbers are back."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import AdapterServer, Reply
from tests.support.exporter import Exporter
from tests.support.stand import check_status

RULES = 100
DEADLINE_S = 2.0
AT_ONCE_S = 0.05
CALLERS = 5  # the HPA controller's workers

SLOW_QUERY = "count_over_time(quantile_over_time(0.5, vector(1)[1h:1s])[100h:1s])"
"""360,000 medians of 3,600 values each: far more than a server computes in the deadline, from no data at all."""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """One gauge."""
    with Exporter("depth 7\n") as server:
        yield server


@pytest.fixture
def prometheus(prometheus2_binary: Path, exporter: Exporter) -> Iterator[Prometheus]:
    """A Prometheus that has scraped it."""
    with Prometheus(prometheus2_binary, jobs=[ScrapeJob(name="depth", targets=(exporter.target,))]) as server:
        server.wait_for("depth")
        yield server


def build_config(url: str, *, resolution: str = "1s", **slow: str) -> dict[str, object]:
    """Return 100 rules on one backend; *slow* are further rules."""
    metrics = [{"name": f"depth-{index}", "query": f"depth + 0 * {index}"} for index in range(RULES)]
    metrics += [{"name": name, "query": query} for name, query in slow.items()]
    return {
        "prometheus": {"url": url, "timeout": f"{DEADLINE_S:g}s"},
        "resolution": resolution,
        "metrics": metrics,
    }


def ask_all(adapter: AdapterServer, metrics: list[str]) -> list[Reply]:
    """Ask for *metrics* one after the other, by as many callers as the HPA controller has workers."""
    with ThreadPoolExecutor(CALLERS) as callers:
        return list(callers.map(adapter.ask, metrics))


DEPTHS = [f"depth-{index}" for index in range(RULES)]


def test_hung_backend_holds_the_first_callers_only(prometheus: Prometheus) -> None:
    """With Prometheus frozen, five wait their deadline and 95 fail at once; the first tick after it is fine."""
    with AdapterServer(build_config(prometheus.url, resolution="5s")) as adapter:
        adapter.wait_for(lambda reply: reply.code == 200, DEPTHS[0])
        _await_tick(5.0)
        prometheus.pause()
        _await_tick(5.0)

        replies = ask_all(adapter, DEPTHS)

        for reply in replies:
            check_status(reply, "DeadlineExceeded", 504)
        waits_s = sorted((reply.took_s for reply in replies), reverse=True)
        assert all(DEADLINE_S * 0.9 <= wait_s <= DEADLINE_S + 1.0 for wait_s in waits_s[:CALLERS]), waits_s[:CALLERS]
        assert waits_s[CALLERS] < AT_ONCE_S, waits_s[CALLERS : CALLERS + 5]

        prometheus.resume()
        _await_tick(5.0)
        assert [reply.code for reply in ask_all(adapter, DEPTHS)] == [200] * RULES


def test_q3_one_slow_rule_harms_no_other(prometheus: Prometheus) -> None:
    """With one rule that never ends in time, the 99 others answer in every round as if it were not there."""
    with AdapterServer(build_config(prometheus.url, slow=SLOW_QUERY)) as adapter:
        adapter.wait_for(lambda reply: reply.code == 200, DEPTHS[0])
        ends_s = time.monotonic() + 3 * DEADLINE_S
        slow_replies: list[Reply] = []

        def ask_slow() -> None:
            while time.monotonic() < ends_s:
                slow_replies.append(adapter.ask("slow"))

        rounds = 0
        with ThreadPoolExecutor(1) as asking:
            asked = asking.submit(ask_slow)
            while time.monotonic() < ends_s:
                for reply in ask_all(adapter, DEPTHS[:99]):
                    assert reply.code == 200, reply.document
                    assert reply.values == ["7"]
                rounds += 1
            asked.result()

        assert rounds >= 3
        for reply in slow_replies:
            check_status(reply, "DeadlineExceeded", 504)
        assert sum(reply.took_s > AT_ONCE_S * 4 for reply in slow_replies) <= 3, "a resting rule holds nobody"


def test_killed_backend_is_back_at_a_tick_after_its_return(prometheus: Prometheus) -> None:
    """A Prometheus that dies is an error at once, and one that comes back is asked again without a restart (Z2, B6)."""
    with AdapterServer(build_config(prometheus.url)) as adapter:
        adapter.wait_for(lambda reply: reply.code == 200, DEPTHS[0])
        prometheus.kill()
        adapter.wait_for(lambda reply: reply.reason == "BackendUnavailable", DEPTHS[0])
        assert {reply.reason for reply in ask_all(adapter, DEPTHS)} == {"BackendUnavailable"}
        assert adapter.get("/apis/external.metrics.k8s.io/v1beta1").code == 200, "discovery needs no backend (D2)"
        prometheus.start()
        prometheus.wait_for("depth")
        adapter.wait_for(lambda reply: reply.code == 200, DEPTHS[0], timeout_s=5)


def _await_tick(resolution_s: float) -> None:
    """Return just after a tick of the adapter's grid has begun."""
    time.sleep(resolution_s - time.time() % resolution_s + 0.05)
