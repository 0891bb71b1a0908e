"""Reported faults that need a real Prometheus to show, each test named after its row."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from loadgen.parts.process import find_free_port
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.adapter import AdapterServer, Reply
from tests.support.exporter import Exporter
from tests.support.stand import check_status


@pytest.fixture(params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """A Prometheus 2.x and a 3.x."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """One gauge of two queues."""
    with Exporter('depth{queue="a"} 7\ndepth{queue="b"} 8\n') as server:
        yield server


def build_job(exporter: Exporter) -> ScrapeJob:
    """Return the job that scrapes *exporter*."""
    return ScrapeJob(name="depth", targets=(exporter.target,))


def build_config(url: str, **rules: str) -> dict[str, Any]:
    """Return a configuration of *rules*."""
    return {
        "prometheus": {"url": url},
        "resolution": "1s",
        "metrics": [{"name": name, "query": query} for name, query in rules.items()],
    }


def ask_once_scraped(adapter: AdapterServer, metric: str, *, selector: str = "") -> Reply:
    """Return the first number: the first tick may be older than the first scrape."""
    return adapter.wait_for(lambda reply: reply.code == 200, metric, selector=selector)


def test_z2_gap_in_the_data_is_an_error_and_ends_by_itself(binary: Path, exporter: Exporter) -> None:
    """While the series is gone it is NoSamples, discovery is unaffected, and its return is seen at once."""
    with Prometheus(binary, jobs=[build_job(exporter)]) as prometheus:
        prometheus.wait_for("depth")
        with AdapterServer(build_config(prometheus.url, total="sum(depth)")) as adapter:
            assert ask_once_scraped(adapter, "total").values == ["15"]
            exporter.set("something_else 1\n")
            gone = adapter.wait_for(lambda reply: reply.code != 200, "total")
            check_status(gone, "NoSamples", 404)
            assert adapter.get("/apis/external.metrics.k8s.io/v1beta1").code == 200
            exporter.set('depth{queue="a"} 21\n')
            back = adapter.wait_for(lambda reply: reply.code == 200, "total")
            assert back.values == ["21"]


def test_s6_vanished_series_is_a_404_and_discovery_stays(binary: Path, exporter: Exporter) -> None:
    """One queue's series vanishes: NoMatch for it at once, the other goes on, the list of metrics stays."""
    with Prometheus(binary, jobs=[build_job(exporter)]) as prometheus:
        prometheus.wait_for("depth")
        with AdapterServer(build_config(prometheus.url, depth="depth")) as adapter:
            assert ask_once_scraped(adapter, "depth", selector="queue=b").values == ["8"]
            before = adapter.get("/apis/external.metrics.k8s.io/v1beta1").document
            exporter.set('depth{queue="a"} 7\n')
            gone = adapter.wait_for(lambda reply: reply.code != 200, "depth", selector="queue=b")
            check_status(gone, "NoMatch", 404)
            assert adapter.ask("depth", selector="queue=a").values == ["7"]
            assert adapter.get("/apis/external.metrics.k8s.io/v1beta1").document == before


def test_z8_offset_gives_the_number_of_a_direct_query(binary: Path, exporter: Exporter) -> None:
    """A query with an offset answers what Prometheus itself answers for the same instant."""
    query = 'depth{queue="a"} offset 2s'
    with Prometheus(binary, jobs=[build_job(exporter)]) as prometheus:
        prometheus.wait_for(query)
        config = build_config(prometheus.url, lag=query)
        config["metrics"][0]["guards"] = {"maxAge": "0s"}  # so that an item's time is the tick's, not its sample's
        with AdapterServer(config) as adapter:
            exporter.set('depth{queue="a"} 70\n')
            adapter.wait_for(lambda reply: reply.values == ["70"], "lag")
            evaluated_at = adapter.ask("lag").document["items"][0]["timestamp"]
            direct = prometheus.query(f"{query} and on () vector(1)", time_s=_parse_time(evaluated_at))
            assert [sample["value"][1] for sample in direct] == ["70"]


def test_b3_path_prefix_is_kept(binary: Path, exporter: Exporter) -> None:
    """A Prometheus below a prefix is asked there, with or without a slash at the end of its URL."""
    with Prometheus(binary, jobs=[build_job(exporter)], route_prefix="/team/prometheus") as prometheus:
        prometheus.wait_for("depth")
        for url in (prometheus.url, prometheus.url + "/"):
            with AdapterServer(build_config(url, total="sum(depth)")) as adapter:
                assert ask_once_scraped(adapter, "total").values == ["15"]


def test_p1_lost_remote_storage_is_partial(binary: Path, exporter: Exporter) -> None:
    """A Prometheus that cannot read its remote storage warns of it: no number, but where the rule accepts it."""
    gone = {"url": f"http://127.0.0.1:{find_free_port()}/read", "read_recent": True}
    with Prometheus(binary, jobs=[build_job(exporter)], extra_config={"remote_read": [gone]}) as prometheus:
        prometheus.wait_for("depth")
        config = build_config(prometheus.url, total="sum(depth)", accepting="sum(depth)")
        config["metrics"][1]["guards"] = {"allowPartial": True}
        with AdapterServer(config) as adapter:
            assert ask_once_scraped(adapter, "accepting").values == ["15"]
            reply = adapter.ask("total")
            check_status(reply, "Partial", 503)
            assert "remote" in reply.message
            assert adapter.ask("accepting").values == ["15"]


def test_h5_two_questions_of_one_tick_are_the_same_answer(binary: Path, exporter: Exporter) -> None:
    """Two adapters asked within one tick give the same number with the same time: no flapping between replicas."""
    with Prometheus(binary, jobs=[build_job(exporter)], scrape_interval_s=1.0) as prometheus:
        prometheus.wait_for("depth")
        config = {**build_config(prometheus.url, total="sum(depth)"), "resolution": "5s"}
        with AdapterServer(config) as one, AdapterServer(config) as other:
            ask_once_scraped(one, "total")
            for number in range(3):
                exporter.set(f'depth{{queue="a"}} {number}\n')
                exporter.wait_for_scrapes(2)
                answers = [adapter.ask("total").document for adapter in (one, other, one, other)]
                by_time: dict[str, set[str]] = {}
                for answer in answers:
                    item = answer["items"][0]
                    by_time.setdefault(item["timestamp"], set()).add(item["value"])
                assert all(len(values) == 1 for values in by_time.values()), by_time
                assert len(by_time) <= 2, "the four questions may straddle one tick"


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
