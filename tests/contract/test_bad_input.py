"""Bad input: a clear error at start, and at a reload the last good configuration goes on serving."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.adapter import AdapterServer
from tests.support.fake_prometheus import FakePrometheus, vector

BROKEN = [
    pytest.param(b"metrics: [\n", "Not readable as YAML", id="broken-yaml"),
    pytest.param(b"\x00\x01\xfe\xff" * 100, "depthgauge.yaml:1", id="binary"),
    pytest.param(b"prometheus: 7\n", "prometheus", id="wrong-type"),
    pytest.param(b"prometheus: {url: http://127.0.0.1:1}\nmetrix: []\n", "metrix", id="unknown-key"),
    pytest.param(
        b"prometheus: {url: http://127.0.0.1:1}\nmetrics:\n- {name: jobs, query: a}\n- {name: Jobs, query: b}\n",
        "depthgauge.yaml:4: metrics[1].name",
        id="M2",
    ),
    pytest.param(
        b"prometheus: {url: http://127.0.0.1:1}\nmetrics:\n- {name: depth, query: a}\n- {name: depth, query: b}\n",
        "depthgauge.yaml:4: metrics[1].name",
        id="M8",
    ),
    pytest.param(
        b"prometheus: {url: http://127.0.0.1:1}\nrules: {external: [{seriesQuery: q}]}\n", "externalRules", id="O2"
    ),
    pytest.param(
        b"prometheus: {url: http://127.0.0.1:1}\nexternalRules:\n"
        b"- {seriesQuery: q, metricsQuery: 'sum(<<.Series>>)'}\n",
        "namespace",
        id="NS4",
    ),
    pytest.param(
        b"prometheus: {url: http://127.0.0.1:1, timeout: soon}\nmetrics:\n"
        b"- {name: a, query: ''}\n- {name: b/c, query: b}\n",
        "prometheus.timeout",
        id="several-at-once",
    ),
]


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """A backend with one number."""
    with FakePrometheus() as backend:
        backend.set("depth", vector([({}, "7")]))
        yield backend


@pytest.fixture
def good(fake: FakePrometheus) -> dict[str, Any]:
    """A configuration that serves it."""
    return {
        "prometheus": {"url": fake.url},
        "resolution": "1s",
        "metrics": [{"name": "depth", "query": "depth"}],
    }


@pytest.mark.parametrize(("config", "says"), BROKEN)
def test_serve_ends_with_every_problem_at_start(tmp_path: Path, config: bytes, says: str) -> None:
    """A configuration that cannot be used ends the process, naming file, line and key, without a traceback."""
    path = tmp_path / "depthgauge.yaml"
    path.write_bytes(config)
    program = Path(sys.executable).parent / "depthgauge"
    arguments = [program, "serve", "--config", path, "--dev-http", "127.0.0.1:0"]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_serve_reports_all_problems_at_once(tmp_path: Path) -> None:
    """Three mistakes are three lines, in the order of the file."""
    path = tmp_path / "depthgauge.yaml"
    path.write_bytes(BROKEN[-1].values[0])
    program = Path(sys.executable).parent / "depthgauge"
    arguments = [program, "serve", "--config", path, "--dev-http", "127.0.0.1:0"]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    lines = [line.removeprefix(f"{path}:").split(": ")[:2] for line in ended.stderr.splitlines()]
    assert lines == [["1", "prometheus.timeout"], ["3", "metrics[0].query"], ["4", "metrics[1].name"]]


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080", "nonsense", "127.0.0.1:99999"])
def test_serve_refuses_every_address_that_is_not_loopback(tmp_path: Path, address: str) -> None:
    """Plain HTTP without authentication is served to this machine only."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text("prometheus: {url: http://127.0.0.1:1}\n")
    program = Path(sys.executable).parent / "depthgauge"
    arguments = [program, "serve", "--config", path, "--dev-http", address]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_reload_keeps_the_last_good_configuration(good: dict[str, Any]) -> None:
    """Each broken file is logged and nothing else: the server goes on with the rules it has, then takes a good one."""
    with AdapterServer(good) as adapter:
        for number, broken in enumerate(BROKEN, start=1):
            adapter.write_config(broken.values[0])
            adapter.wait_for_log("config_reload_failed", times=number)
            assert adapter.ask("depth").values == ["7"]
        adapter.write_config({**good, "metrics": [{"name": "deeper", "query": "depth"}]})
        adapter.wait_for(lambda reply: reply.code == 200, "deeper", timeout_s=60)
        assert adapter.ask("depth").reason == "UnknownMetric"


def test_o1_reload_follows_a_configmap_swap(good: dict[str, Any]) -> None:
    """A ConfigMap's `..data` symlink that points elsewhere is a new configuration, within seconds and no restart."""
    with AdapterServer(good) as adapter:
        folder = adapter.config_path.parent
        adapter.config_path.rename(folder / "outside.tmp")
        _write_configmap_version(folder, "1", (folder / "outside.tmp").read_text())
        adapter.config_path.symlink_to("..data/depthgauge.yaml")
        assert adapter.ask("depth").values == ["7"]

        renamed = (folder / "outside.tmp").read_text().replace("name: depth", "name: swapped")
        _write_configmap_version(folder, "2", renamed)
        adapter.wait_for(lambda reply: reply.code == 200, "swapped", timeout_s=60)


def _write_configmap_version(folder: Path, version: str, text: str) -> None:
    """Do what the kubelet does: a new folder, and a symlink swapped onto it atomically."""
    (folder / f"..{version}").mkdir()
    (folder / f"..{version}" / "depthgauge.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(f"..{version}")
    (folder / "..data_tmp").replace(folder / "..data")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"drip_bytes_per_s": 1.0}, id="one-byte-a-second"),
        pytest.param({"is_hung": True}, id="hangs"),
        pytest.param({"cut_after_bytes": 10}, id="cut-in-the-body"),
        pytest.param({"raw": b"SSH-2.0-OpenSSH_9.2\r\n"}, id="not-http"),
    ],
)
def test_a_backend_that_misbehaves_leaves_the_server_serving(
    good: dict[str, Any], fake: FakePrometheus, fault: dict[str, Any]
) -> None:
    """One query's trouble is that rule's error within its deadline; the other rule answers before, during and after."""
    fake.set("bad", vector([({}, "1")]).but(**fault))
    good["prometheus"]["timeout"] = "1s"
    good["metrics"].append({"name": "bad", "query": "bad"})
    with AdapterServer(good) as adapter:
        assert adapter.ask("depth").values == ["7"]
        reply = adapter.ask("bad")
        assert reply.code in {500, 503, 504}
        assert reply.reason in {"BackendRefused", "BackendUnavailable", "DeadlineExceeded"}
        assert reply.took_s < 3
        assert adapter.ask("depth").values == ["7"]
