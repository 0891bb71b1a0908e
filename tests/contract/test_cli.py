"""The commands as people run them, against a Prometheus that answers what it is told to."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from adapter.cli.program import app
from tests.support.adapter import AdapterServer
from tests.support.fake_prometheus import Answer, FakePrometheus, error, page, vector

ORDERS = 'sum by (queue) (q{job="shop"})'


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """A Prometheus with two queues."""
    with FakePrometheus() as prometheus:
        prometheus.set(ORDERS, vector([({"queue": "orders"}, "12"), ({"queue": "mails"}, "329.5")]))
        yield prometheus


@pytest.fixture
def write_config(tmp_path: Path, fake: FakePrometheus) -> Callable[..., Path]:
    """Write a configuration of the fake with the given metrics; other keys are added to it."""

    def write(*metrics: Mapping[str, Any], **more: Any) -> Path:
        path = tmp_path / "depthgauge.yaml"
        document = {"prometheus": {"url": fake.url}, "metrics": list(metrics), **more}
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    return write


@pytest.fixture
def config(write_config: Callable[..., Path]) -> Path:
    """A configuration with one metric."""
    return write_config({"name": "queue_length", "query": ORDERS})


def run(*arguments: str | Path) -> Result:
    """Run a command as from a pipe, without the caller's own settings."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"DEPTHGAUGE_CONFIG": None})


def test_get_prints_a_table_of_the_items(config: Path) -> None:
    """A person sees labels, value and time."""
    result = run("get", "queue_length", "--config", config)
    assert result.exit_code == 0
    header, first, second = result.stdout.splitlines()
    assert header.split() == ["LABELS", "VALUE", "TIMESTAMP"]
    assert first.split()[:2] == ["queue=mails", "329500m"]
    assert second.split()[:2] == ["queue=orders", "12"]
    assert result.stderr == ""


def test_get_prints_bare_values_for_scripts(config: Path) -> None:
    """`-o value` is the values alone, a line each."""
    result = run("get", "QUEUE_LENGTH", "-l", "queue=orders", "-c", config, "-o", "value")
    assert (result.exit_code, result.stdout) == (0, "12\n")


def test_get_prints_what_the_api_answers_as_json(config: Path) -> None:
    """`-o json` from here and from a running adapter are one document, and it is the API's (but for the tick)."""
    with AdapterServer(config.read_text()) as server:
        local = run("get", "queue_length", "-n", "shop", "-c", config, "-o", "json")
        remote = run("get", "queue_length", "-n", "shop", "--server", server.url, "-o", "json")
    documents = [json.loads(result.stdout) for result in (local, remote)]
    for document in documents:
        assert document["kind"] == "ExternalMetricValueList"
        assert [item["value"] for item in document["items"]] == ["329500m", "12"]
        for item in document["items"]:
            del item["timestamp"]
    assert documents[0] == documents[1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(["queue_lenght"], "UnknownMetric", id="typo"),
        pytest.param(["queue_length", "-l", "queue=none"], "NoMatch", id="no_match"),
        pytest.param(["queue_length", "-l", "queue in (a"], "BadSelector", id="bad_selector"),
    ],
)
def test_get_says_the_error_with_its_reason_and_fails(config: Path, arguments: list[str], reason: str) -> None:
    """An error goes to stderr with its Reason, stdout stays empty, the exit code is 1; locally and from a server."""
    local = run("get", *arguments, "-c", config)
    with AdapterServer(config.read_text()) as server:
        remote = run("get", *arguments, "--server", server.url)
    for result in (local, remote):
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"({reason}, " in result.stderr
        assert f'metric "{arguments[0]}"' in result.stderr
    assert local.stderr == remote.stderr


def test_get_prints_the_status_as_json_and_fails(config: Path) -> None:
    """`-o json` of an error is the Status, on stdout, and the exit code is 1 all the same."""
    result = run("get", "queue_length", "-l", "queue=none", "-c", config, "-o", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (document["kind"], document["code"]) == ("Status", 404)
    assert document["details"]["causes"][0]["reason"] == "NoMatch"


def test_get_quotes_names_and_selectors_for_the_server(write_config: Callable[..., Path]) -> None:
    """Colons, slashes and spaces reach the adapter as they were typed."""
    config = write_config({"name": "job:depth:sum", "query": ORDERS})
    with AdapterServer(config.read_text()) as server:
        found = run("get", "job:depth:sum", "-l", "queue in (orders, x)", "--server", server.url + "/", "-o", "value")
        foreign = run("get", "a/b?c", "--server", server.url)
    assert (found.exit_code, found.stdout) == (0, "12\n")
    assert 'metric "a/b?c"' in foreign.stderr


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("127.0.0.1:8080", "http://127.0.0.1:8080", id="no_scheme"),
        pytest.param("ftp://host", "http://127.0.0.1:8080", id="scheme"),
        pytest.param("http://", "http://127.0.0.1:8080", id="no_host"),
        pytest.param("http://host/?a=b", "without ? and #", id="query"),
    ],
)
def test_get_refuses_what_is_no_server_url(url: str, expected: str) -> None:
    """A wrong URL is wrong usage, and the message shows a right one."""
    result = run("get", "q", "--server", url)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_get_says_what_to_look_at_when_nobody_answers() -> None:
    """A refused connection names the address and asks whether an adapter is serving there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = run("get", "q", "--server", url)
    assert result.exit_code == 1
    assert url in result.stderr
    assert "is an adapter serving there?" in result.stderr


def test_get_tells_a_server_that_is_no_adapter(fake: FakePrometheus) -> None:
    """An answer that is not the external metrics API is named by its type, and never taken for a value."""
    result = run("get", "q", "--server", fake.url)
    assert result.exit_code == 1
    assert "not the external metrics API" in result.stderr


def test_get_takes_no_other_json_for_an_answer() -> None:
    """JSON of another API is told like a web page, whatever it holds."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"kind": "APIGroupList", "items": [{"value": "7"}]}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        result = run("get", "q", "--server", f"http://127.0.0.1:{server.server_port}")
        thread.join(10)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "HTTP 200 with application/json, which is not the external metrics API" in result.stderr


def test_get_needs_somebody_to_ask(config: Path) -> None:
    """Neither, or both of --config and --server, is wrong usage; DEPTHGAUGE_CONFIG yields to --server."""
    assert run("get", "q").exit_code == 2
    assert "DEPTHGAUGE_CONFIG" in run("get", "q").stderr
    assert run("get", "q", "-c", config, "--server", "http://x").exit_code == 2
    environment = {"DEPTHGAUGE_CONFIG": str(config)}
    assert CliRunner().invoke(app, ["get", "queue_length"], env=environment).exit_code == 0
    served = CliRunner().invoke(app, ["get", "queue_length", "--server", "nonsense"], env=environment)
    assert "not both" not in served.stderr


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_missing_config_is_wrong_usage_that_names_both_ways(command: str) -> None:
    """Whoever forgot the configuration learns the option and the variable."""
    result = run(command, *(["q"] if command == "explain" else []))
    assert result.exit_code == 2
    assert "--config" in result.stderr
    assert "DEPTHGAUGE_CONFIG" in result.stderr


@pytest.mark.parametrize("command", ["get", "explain"])
def test_problems_of_the_configuration_go_to_stderr(tmp_path: Path, command: str) -> None:
    """A configuration that cannot be used is told line by line, and nothing is asked."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text("prometheus: {url: 'http://127.0.0.1:1'}\nmetrcs: []\n")
    result = run(command, "q", "-c", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}:" in result.stderr


def test_check_prints_problems_and_fails(tmp_path: Path) -> None:
    """Problems are the check's answer: on stdout, exit code 1."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text("prometheus: {url: 'http://127.0.0.1:1'}\nmetrcs: []\n")
    result = run("check", "-c", path)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].endswith("the configuration cannot be used")
    document = json.loads(run("check", "-c", path, "-o", "json").stdout)
    assert document["ok"] is False
    assert document["problems"]


def test_check_tells_levels_by_its_exit_code(write_config: Callable[..., Path]) -> None:
    """Warnings pass, unless the check is strict; an error fails."""
    warned = write_config({"name": "a", "query": "avg(q)"})
    assert run("check", "-c", warned).exit_code == 0
    assert run("check", "-c", warned, "--strict").exit_code == 1
    failed = write_config({"name": "a", "query": "q[5m]"})
    result = run("check", "-c", failed)
    assert result.exit_code == 1
    assert "[wrong-result-type]" in result.stdout


def test_check_asks_nobody_unless_it_is_live(fake: FakePrometheus, config: Path) -> None:
    """Without --live a check works where no backend is in reach."""
    assert run("check", "-c", config).exit_code == 0
    assert not fake.requests


def test_check_live_reports_what_the_backend_says(fake: FakePrometheus, config: Path) -> None:
    """Series and their bound, values, labels and duration; the whole rule is asked once."""
    result = run("check", "-c", config, "--live")
    assert result.exit_code == 0
    assert "live: 2 of at most 1000 series; 12 to 329.5; labels queue; " in result.stdout
    assert fake.count(ORDERS) == 1
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("answer", "code", "level"),
    [
        pytest.param(error(400, "bad_data", "expected a range"), "BadQuery", "error", id="B4"),
        pytest.param(page(403, "no"), "BackendRefused", "error", id="B1"),
        pytest.param(page(503, "no"), "BackendUnavailable", "error", id="unavailable"),
        pytest.param(vector([]), "NoSamples", "warning", id="Z1"),
        pytest.param(vector([({}, "NaN")]), "NotFinite", "warning", id="N1"),
        pytest.param(vector([({"a": str(n)}, "1") for n in range(1001)]), "TooManySeries", "error", id="series"),
        pytest.param(vector([({}, "1")], warnings=["store unavailable"]), "Partial", "error", id="P1"),
    ],
)
def test_check_live_finds_what_cannot_be_served(
    fake: FakePrometheus, config: Path, answer: Answer, code: str, level: str
) -> None:
    """Every failure is a finding with its Reason: an error, or a warning where a minute may mend it."""
    fake.set(ORDERS, answer)
    result = run("check", "-c", config, "--live", "-o", "json")
    findings = json.loads(result.stdout)["findings"]
    assert [(found["level"], found["code"]) for found in findings] == [(level, code)]
    assert result.exit_code == (1 if level == "error" else 0)


def test_check_live_tells_a_dead_backend_once(tmp_path: Path) -> None:
    """A hundred metrics of a backend that nobody answers for are one finding."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        metrics = [{"name": f"m{number}", "query": f"sum(q{number})"} for number in range(100)]
        document = {"prometheus": {"url": f"http://127.0.0.1:{unused.getsockname()[1]}"}, "metrics": metrics}
        path = tmp_path / "depthgauge.yaml"
        path.write_text(yaml.safe_dump(document))
        result = run("check", "-c", path, "--live", "-o", "json")
    findings = json.loads(result.stdout)["findings"]
    assert [(found["backend"], found["code"]) for found in findings] == [("default", "BackendUnavailable")]
    assert "100 metrics" in findings[0]["message"]
    assert result.exit_code == 1


def test_check_live_asks_many_metrics_within_the_backends_places(fake: FakePrometheus, write_config: Any) -> None:
    """More metrics than places and waiters are all asked: a check is never Overloaded by itself."""
    metrics = [{"name": f"m{number}", "query": f"sum(q{number})"} for number in range(60)]
    for metric in metrics:
        fake.set(metric["query"], vector([({}, "1")]).but(delay_s=0.005))
    path = write_config(*metrics, prometheus={"url": fake.url, "maxConcurrency": 2})
    result = run("check", "-c", path, "--live")
    assert result.stdout.splitlines()[-1] == "60 metrics, 0 errors, 0 warnings, 60 answered live"


def test_check_live_leaves_out_namespaced_queries_without_a_namespace(fake: FakePrometheus, write_config: Any) -> None:
    """A query that names the request's namespace is asked for the one given, and said to be left out otherwise."""
    path = write_config({"name": "a", "query": "sum(q{namespace=$namespace})"})
    fake.set('sum(q{namespace="shop"})', vector([({}, "5")]))
    skipped = run("check", "-c", path, "--live")
    assert "not asked: " in skipped.stdout
    assert "--namespace" in skipped.stdout
    assert not fake.requests
    asked = run("check", "-c", path, "--live", "-n", "shop")
    assert "live: 1 of at most 1000 series; value 5; " in asked.stdout


def test_explain_shows_every_step_in_order(config: Path) -> None:
    """The walk is written down from the question to the items."""
    result = run("explain", "queue_length", "-n", "shop", "-l", "queue=orders", "-c", config, "-o", "json")
    explained = json.loads(result.stdout)
    names = [step["name"] for step in explained["steps"]]
    details = {step["name"]: step["detail"] for step in explained["steps"]}
    assert list(dict.fromkeys(names)) == ["rule", "evaluation", "tick", "promql", "guard", "raw", "check", "selection"]
    assert f"{config}:" in details["rule"]
    assert details["evaluation"].startswith("snapshot")
    assert details["promql"] == ORDERS
    assert "329.5" in details["raw"]
    assert details["selection"] == "queue=orders: 1 of 2 series"
    checks = [step["detail"].partition(":")[0] for step in explained["steps"] if step["name"] == "check"]
    assert checks == [
        "partial",
        "maxSeries",
        "maxAge",
        "lostTargets",
        "minSeries",
        "expectOne",
        "finite",
        "negative",
        "representable",
    ]
    assert [item["value"] for item in explained["answer"]["items"]] == ["12"]
    text = run("explain", "queue_length", "-l", "queue=orders", "-c", config).stdout
    assert [name for name in ("question", "rule", "tick", "promql", "raw", "items") if f"\n{name} " in f"\n{text}"] == [
        "question",
        "rule",
        "tick",
        "promql",
        "raw",
        "items",
    ]


def test_explain_shows_the_check_that_failed(fake: FakePrometheus, config: Path) -> None:
    """What a failed check saw, and its limit, stand before the error; the exit code is 1."""
    fake.set(ORDERS, vector([({"queue": "orders"}, "-3")]))
    result = run("explain", "queue_length", "-c", config)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any("negative: the least is -3" in line for line in lines)
    assert lines[-1].startswith("error")
    assert "(Negative, 500)" in lines[-1]


def test_explain_lists_the_values_that_exist_when_nothing_matches(fake: FakePrometheus, config: Path) -> None:
    """A mistyped selector is answered with what it could have been, clipped."""
    fake.set(ORDERS, vector([({"queue": f"queue-{number:02}", "pod": "a"}, "1") for number in range(30)]))
    result = run("explain", "queue_length", "-l", "queue=order", "-c", config, "-o", "json")
    steps = {step["name"]: step["detail"] for step in json.loads(result.stdout)["steps"]}
    assert steps["exists"].startswith("queue: queue-00, queue-01, ")
    assert steps["exists"].endswith("queue-09, ... and 20 more")


def test_explain_shows_a_pushed_down_query_and_its_probe(fake: FakePrometheus, write_config: Any) -> None:
    """The selectors are seen in the PromQL, and an empty answer is followed by the count that tells why."""
    path = write_config({"name": "a", "query": "sum(q{$matchers})"})
    fake.set('sum(q{queue="x"})', vector([]))
    fake.set("count(\nsum(q{})\n)", vector([({}, "1")]))
    result = run("explain", "a", "-l", "queue=x", "-c", path, "-o", "json")
    explained = json.loads(result.stdout)
    queries = [step["detail"] for step in explained["steps"] if step["name"] == "promql"]
    assert queries == ['sum(q{queue="x"})', "count(\nsum(q{})\n)"]
    assert explained["answer"]["details"]["causes"][0]["reason"] == "NoMatch"
    assert result.exit_code == 1


def test_foreign_text_is_shown_and_not_obeyed(fake: FakePrometheus, config: Path) -> None:
    """A label value with escape codes reaches the screen escaped, in every command."""
    fake.set(ORDERS, vector([({"queue": "\x1b[31mred"}, "1")]))
    for command in (["get", "queue_length"], ["explain", "queue_length"]):
        assert "\x1b" not in run(*command, "-c", config).stdout


def test_schema_is_json_that_names_the_keys() -> None:
    """The schema can be given to an editor as it is printed."""
    document = json.loads(run("schema").stdout)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert {"prometheus", "metrics", "resolution"} <= document["properties"].keys()


def test_interrupt_ends_quietly(fake: FakePrometheus, config: Path) -> None:
    """Ctrl-C while a backend is silent ends the command with 130, without a traceback."""
    fake.set(ORDERS, vector([]).but(is_hung=True))
    command = [str(Path(sys.executable).parent / "depthgauge"), "get", "queue_length", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            fake.wait_for_requests(1, promql=ORDERS, timeout_s=30)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_dead_backend_is_one_line_on_stderr(tmp_path: Path) -> None:
    """What the adapter would log is not repeated on a command's screen."""
    path = tmp_path / "depthgauge.yaml"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        path.write_text(yaml.safe_dump({"prometheus": {"url": url}, "metrics": [{"name": "a", "query": "q"}]}))
        command = [str(Path(sys.executable).parent / "depthgauge"), "get", "a", "--config", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith('depthgauge: metric "a": backend unavailable: ')
    assert line.endswith("(BackendUnavailable, 503)")


def test_metric_names_complete_from_the_configuration(write_config: Callable[..., Path]) -> None:
    """The shell offers the configuration's metrics by their beginning, and nothing where it cannot be read."""
    path = write_config({"name": "queue_length", "query": "q"}, {"name": "other", "query": "q"})
    environment = {
        "_DEPTHGAUGE_COMPLETE": "complete_bash",
        "COMP_WORDS": "depthgauge get queue",
        "COMP_CWORD": "2",
        "DEPTHGAUGE_CONFIG": str(path),
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="depthgauge")
    assert result.stdout.split() == ["queue_length"]
    path.write_text("metrics: [")
    assert CliRunner().invoke(app, [], env=environment, prog_name="depthgauge").stdout.split() == []
