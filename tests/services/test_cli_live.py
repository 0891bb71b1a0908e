"""The commands against a real Prometheus: what it refuses, what it holds, and what happens when it hangs."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from adapter.cli.program import app
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.exporter import Exporter

SERIES = 'queue_depth{queue="orders"} 12\nqueue_depth{queue="mails"} 0.0004\nconsumers{queue="orders"} 0\n'


@pytest.fixture(scope="module", params=["prometheus2", "prometheus3"])
def prometheus(request: pytest.FixtureRequest) -> Iterator[Prometheus]:
    """A Prometheus that has scraped two queues."""
    binary: Path = request.getfixturevalue(f"{request.param}_binary")
    with Exporter(SERIES) as exporter:
        job = ScrapeJob(name="shop", targets=(exporter.target,))
        with Prometheus(binary, jobs=[job]) as server:
            server.wait_for("consumers offset 6s")  # a tick is up to 5 s old
            yield server


@pytest.fixture
def write_config(tmp_path: Path, prometheus: Prometheus) -> Callable[..., Path]:
    """Write a configuration of that Prometheus with the given queries by metric name."""

    def write(queries: Mapping[str, str], **backend: Any) -> Path:
        path = tmp_path / "depthgauge.yaml"
        metrics = [{"name": name, "query": query} for name, query in queries.items()]
        path.write_text(yaml.safe_dump({"prometheus": {"url": prometheus.url, **backend}, "metrics": metrics}))
        return path

    return write


def run(*arguments: str | Path) -> Result:
    """Run a command as from a pipe."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"DEPTHGAUGE_CONFIG": None})


def test_check_live_finds_what_a_real_backend_refuses(write_config: Callable[..., Path]) -> None:
    """Queries that cannot be answered are told apart from those that can (B4, Z1, Z10, N2, field 5)."""
    config = write_config(
        {
            "depth": "sum by (queue) (queue_depth)",
            "field_5": "sum(rate(queue_depth))",
            "typo": "sum(queue_dept)",
            "matrix": "queue_depth[5m]",
            "ratio": 'sum(queue_depth{queue="orders"}) / sum(consumers)',
        }
    )
    result = run("check", "-c", config, "--live", "-o", "json")
    report = json.loads(result.stdout)
    live = {seen["metric"]: seen for seen in report["live"]}
    assert {name: seen.get("reason") for name, seen in live.items()} == {
        "depth": None,
        "field_5": "BadQuery",
        "typo": "NoSamples",
        "matrix": "WrongResultType",
        "ratio": "NotFinite",
    }
    assert (live["depth"]["series"], live["depth"]["lowest"], live["depth"]["highest"]) == (2, "0.0004", "12")
    assert live["depth"]["labels"] == ["queue"]
    errors = {found["metric"] for found in report["findings"] if found["level"] == "error"}
    assert errors == {"field_5", "matrix"}
    assert "expected type" in live["field_5"]["message"]
    assert result.exit_code == 1


def test_get_and_explain_agree_on_what_a_real_backend_holds(write_config: Callable[..., Path]) -> None:
    """The number that a person gets is the one whose making is explained (N10)."""
    config = write_config({"depth": "sum by (queue) (queue_depth)"})
    value = run("get", "depth", "-l", "queue=mails", "-c", config, "-o", "value")
    assert (value.exit_code, value.stdout) == (0, "400u\n")
    explained = json.loads(run("explain", "depth", "-l", "queue=mails", "-c", config, "-o", "json").stdout)
    assert [item["value"] for item in explained["answer"]["items"]] == ["400u"]


def test_explain_tells_a_typo_from_an_outage_in_a_pushed_down_query(write_config: Callable[..., Path]) -> None:
    """A selector that matches nothing is NoMatch while the rule has series, and NoSamples while it has none."""
    config = write_config({"depth": "sum(queue_depth{$matchers})", "gone": "sum(queue_dept{$matchers})"})
    reasons = {}
    for metric in ("depth", "gone"):
        result = run("explain", metric, "-l", "queue=order", "-c", config, "-o", "json")
        reasons[metric] = json.loads(result.stdout)["answer"]["details"]["causes"][0]["reason"]
    assert reasons == {"depth": "NoMatch", "gone": "NoSamples"}


def test_check_live_ends_soon_and_tells_a_hung_backend_once(
    write_config: Callable[..., Path], prometheus: Prometheus
) -> None:
    """A stopped Prometheus costs one deadline, not one for each metric, and is told once."""
    queries = {f"m{number}": f"sum(queue_depth) + {number}" for number in range(100)}
    config = write_config(queries, timeout="1s")
    prometheus.pause()
    try:
        report = json.loads(run("check", "-c", config, "--live", "-o", "json").stdout)
    finally:
        prometheus.resume()
    assert sum(seen["durationMs"] for seen in report["live"]) < 16 * 1_500 + 84 * 100
    assert [(found["backend"], found["code"]) for found in report["findings"]] == [("default", "DeadlineExceeded")]
