"""What `cluster up` hands out: files that the parts understand, and lines that can be copied into a shell."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from adapter.config.load import load_configuration
from loadgen.cli import app
from loadgen.cluster.background import BackgroundState, ProcessMark, load_state, stop_background
from loadgen.cluster.cli import build_hints
from loadgen.cluster.errors import explain_failure
from loadgen.cluster.example import build_autoscaler, build_deployment, build_depths, build_path, build_rules
from loadgen.cluster.objects import build_adapter_rights
from loadgen.cluster.playground import PlaygroundPlaces
from loadgen.parts.process import ServerFailed
from loadgen.textfile import read_exposition

MARK = ProcessMark(name="holder", pid=1, start_ticks=1, boot_id="none")
PLACES = PlaygroundPlaces(
    depths="/cache/metrics.prom",
    rules="/cache/depthgauge.yaml",
    adapter_log="/cache/logs/depthgauge.log",
    prometheus_url="http://127.0.0.1:9090",
    ops_url="http://127.0.0.1:8081",
)
STATE = BackgroundState(
    holder=MARK,
    parts=(),
    url="https://127.0.0.1:6443",
    kubeconfig=Path("/my cache/admin.kubeconfig"),
    folders=(),
    playground=PLACES,
)


def test_first_depths_are_metrics_that_prometheus_reads() -> None:
    """The text is in the exposition format, and the queue of the HPA is in it."""
    families = list(text_string_to_metric_families(build_depths()))
    assert [family.type for family in families] == ["gauge"]
    depths = {sample.labels["queue"]: sample.value for sample in families[0].samples}
    assert depths == {"orders": 250, "invoices": 40}


def test_rules_are_a_configuration_without_problems(tmp_path: Path) -> None:
    """The adapter takes them as they are, with the metric that the HPA asks for."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text(build_rules("http://127.0.0.1:9090"))
    loaded = load_configuration(path)
    assert loaded.warnings == ()
    assert list(loaded.configuration.rules) == ["queue_length"]


def test_hpa_asks_for_what_the_printed_path_asks_for() -> None:
    """The command to try gives what the HPA gets: the same namespace, metric and selector; and it scales its target."""
    hpa: dict[str, Any] = build_autoscaler()
    metric = hpa["spec"]["metrics"][0]["external"]["metric"]
    assert (metric["name"], metric["selector"]) == ("queue_length", {"matchLabels": {"queue": "orders"}})
    start = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{hpa['metadata']['namespace']}"
    assert build_path() == f"{start}/{metric['name']}?labelSelector=queue%3Dorders"
    deployment = build_deployment()
    target = hpa["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (deployment["kind"], deployment["metadata"]["name"])
    assert deployment["metadata"]["namespace"] == hpa["metadata"]["namespace"]


def test_hints_name_every_place_and_command() -> None:
    """What is printed is enough to play: kubeconfig, a value, an error, the HPA, the files, the way out."""
    hints = [line.strip() for line in build_hints(STATE).splitlines()]
    assert "export KUBECONFIG='/my cache/admin.kubeconfig'" in hints
    assert f"kubectl get --raw '{build_path()}'" in hints
    assert f"kubectl get --raw '{build_path('oders')}'" in hints
    assert "kubectl get hpa -n demo -w" in hints
    assert "scripts/cluster down" in hints
    assert {PLACES.depths, PLACES.rules, PLACES.adapter_log} <= set(hints)
    assert not any(line.startswith("alias") for line in hints)


def test_hints_without_an_adapter_promise_none() -> None:
    """With --no-adapter nothing is printed that could not work; a kubectl off PATH is given a name."""
    hints = build_hints(dataclasses.replace(STATE, playground=None), kubectl=Path("/my cache/kubectl"))
    assert "alias kubectl='/my cache/kubectl'" in hints
    assert "external.metrics" not in hints
    assert "hpa" not in hints


@pytest.mark.parametrize("playground", [pytest.param(PLACES, id="with"), pytest.param(None, id="without")])
def test_state_tells_whether_there_is_an_adapter(tmp_path: Path, playground: PlaygroundPlaces | None) -> None:
    """What the holder wrote down is what the other commands read."""
    state = dataclasses.replace(STATE, playground=playground)
    (tmp_path / "state.json").write_text(json.dumps(dataclasses.asdict(state), default=str))
    assert load_state(tmp_path) == state


def test_edited_files_are_kept_beside_the_logs(tmp_path: Path) -> None:
    """Also when the holder was killed or its state is lost, nobody's work is thrown away."""
    (tmp_path / "depthgauge.yaml").write_text("# mine")
    stop_background(tmp_path, report=print)
    assert (tmp_path / "logs" / "depthgauge.yaml").read_text() == "# mine"
    assert not (tmp_path / "depthgauge.yaml").exists()


def test_adapter_is_granted_reviews_and_the_trust_and_no_more() -> None:
    """The two roles that Kubernetes' documentation names for aggregated servers, for its own user alone."""
    rights: list[dict[str, Any]] = build_adapter_rights("adapter", namespace="monitoring")
    assert [right["roleRef"]["name"] for right in rights] == [
        "system:auth-delegator",
        "extension-apiserver-authentication-reader",
    ]
    users = [subject["name"] for right in rights for subject in right["subjects"]]
    assert users == ["system:serviceaccount:monitoring:adapter"] * 2


@pytest.mark.parametrize("name", ["depthgauge", "exporter"])
def test_own_server_that_cannot_be_run_is_no_part_to_provide(name: str) -> None:
    """The advice is one that helps: these come by scripts/setup."""
    failure = ServerFailed(name=name, cause="cannot run /bin/x: missing", log_tail="")
    assert "scripts/setup" in explain_failure(failure).next_step


@pytest.mark.parametrize(
    ("written", "served"),
    [
        pytest.param(b"a 1\n", b"a 1\n", id="as it stands"),
        pytest.param(b"a 1", b"a 1\n", id="an editor that writes no line feed at the end"),
        pytest.param(b"\xff nonsense\n", b"\xff nonsense\n", id="nonsense is Prometheus' to refuse"),
    ],
)
def test_exposition_is_the_file_with_a_line_feed_at_its_end(tmp_path: Path, written: bytes, served: bytes) -> None:
    """Nothing is added, taken away or judged but the line feed without which Prometheus refuses all of it."""
    path = tmp_path / "metrics.prom"
    path.write_bytes(written)
    assert read_exposition(path) == served


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param([], id="none"),
        pytest.param(["--queue-url=http://127.0.0.1:1/", "--text-file=metrics.prom"], id="both"),
    ],
)
def test_exporter_wants_one_source(sources: list[str]) -> None:
    """Two sources would be two truths."""
    result = CliRunner().invoke(app, ["exporter", "--listen=127.0.0.1:1", *sources])
    assert result.exit_code == 2
