"""The real servers do what tests and demonstrations of failures rely on."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from loadgen.parts import process
from loadgen.parts.process import ServerFailed
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob, ScrapingServer
from loadgen.parts.victoria import VictoriaMetrics
from tests.support.exporter import Exporter

Start = Callable[..., ScrapingServer]


@pytest.fixture(params=["prometheus2", "prometheus3", "victoria"])
def build(request: pytest.FixtureRequest) -> Start:
    """Build one of the backends that the product is tested against, not started yet."""
    binary: Path = request.getfixturevalue(f"{request.param}_binary")
    kind = VictoriaMetrics if request.param == "victoria" else Prometheus
    return lambda **arguments: kind(binary, **arguments)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """Serve one queue's depth, 3."""
    with Exporter('queue_depth{queue="orders"} 3\n') as running:
        yield running


def wait_until(is_reached: Callable[[], bool], *, timeout_s: float = 10.0) -> bool:
    """Tell whether *is_reached* became true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not is_reached():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def test_backend_answers_with_the_exporters_value_and_follows_it(build: Start, exporter: Exporter) -> None:
    """What the exporter says is what a query gives, before and after it changes."""
    with build(jobs=[ScrapeJob(name="queue", targets=(exporter.target,), labels={"shard": "a"})]) as server:
        first = server.wait_for("queue_depth == 3")
        exporter.set('queue_depth{queue="orders"} 4\n')
        second = server.wait_for("queue_depth == 4")
    assert first[0]["metric"] == {
        "__name__": "queue_depth",
        "instance": exporter.target,
        "job": "queue",
        "queue": "orders",
        "shard": "a",
    }
    assert second[0]["value"][1] == "4"


def test_backend_sees_a_dead_exporter_and_its_return_on_the_same_port(build: Start, exporter: Exporter) -> None:
    """`up` is 0 while the exporter is stopped and 1 once it is started again."""
    with build(jobs=[ScrapeJob(name="queue", targets=(exporter.target,))]) as server:
        server.wait_for('up{job="queue"} == 1')
        exporter.stop()
        server.wait_for('up{job="queue"} == 0')
        exporter.start()
        server.wait_for('up{job="queue"} == 1')


def test_backend_accepts_but_never_answers_while_paused_and_answers_after_resume(build: Start) -> None:
    """A paused server is a hung one: the connection stands, the answer does not come."""
    with build() as server:
        server.pause()
        with socket.create_connection(("127.0.0.1", server.port), timeout=5):
            pass
        with pytest.raises(TimeoutError):
            server.request("/api/v1/query?query=1", deadline_s=0.3)
        assert server.is_running
        server.resume()
        assert server.query("vector(7)")[0]["value"][1] == "7"


@pytest.mark.parametrize("end", [pytest.param("stop", id="stop"), pytest.param("kill", id="kill")])
def test_backend_refuses_after_its_end_and_returns_with_port_and_data(
    build: Start, exporter: Exporter, end: str
) -> None:
    """Ended and started again, a server has the same address and knows what it knew."""
    with build(jobs=[ScrapeJob(name="queue", targets=(exporter.target,))]) as server:
        server.wait_for("queue_depth == 3")
        url = server.url
        getattr(server, end)()
        assert not server.is_running
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        server.set_jobs([])
        server.start()
        assert server.url == url
        if end == "stop" or isinstance(server, Prometheus):  # a killed VictoriaMetrics loses the newest seconds
            server.wait_for("last_over_time(queue_depth[5m])")


def test_backend_ends_and_leaves_no_folder_when_the_block_is_left_while_paused(build: Start) -> None:
    """Leaving the block ends even a paused server, within seconds, and removes its folder."""
    with build() as server:
        pid, folder = server.pid, server.folder
        server.pause()
        started_s = time.monotonic()
    assert time.monotonic() - started_s < process.STOP_DEADLINE_S
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_backend_takes_another_port_when_the_first_is_taken(build: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port lost between choosing and binding costs a retry, not the start."""
    with Exporter() as squatter:
        taken = int(squatter.target.rpartition(":")[2])
        ports = iter([taken, process.find_free_port()])
        monkeypatch.setattr(process, "find_free_port", lambda: next(ports))
        with build() as server:
            assert server.port != taken
            assert server.query("vector(1)")


def test_backend_scrapes_targets_from_files_and_new_jobs_after_a_reload(
    build: Start, exporter: Exporter, tmp_path: Path
) -> None:
    """Targets come and go by file and by reload, without a restart."""
    targets = tmp_path / "targets.json"
    targets.write_text("[]")
    with build(jobs=[ScrapeJob(name="from-file", file_sd=(targets,))]) as server:
        pid = server.pid
        targets.write_text(f'[{{"targets": ["{exporter.target}"]}}]')
        server.wait_for('queue_depth{job="from-file"}')
        server.set_jobs([ScrapeJob(name="reloaded", targets=(exporter.target,))])
        server.wait_for('queue_depth{job="reloaded"}')
        assert server.pid == pid


def test_backend_that_cannot_start_says_why(build: Start) -> None:
    """A wrong flag gives an error that quotes the server's own words, at once and not after the deadline."""
    started_s = time.monotonic()
    with pytest.raises(ServerFailed) as caught, build(extra_flags=["--no-such-flag"]):
        pytest.fail("it started")
    assert "no-such-flag" in caught.value.log_tail
    assert time.monotonic() - started_s < 10


def test_backend_dies_with_the_process_that_started_it(build: Start) -> None:
    """Nothing is left behind by a run that was killed, not even a paused server."""
    sample = build()
    sample.close()
    script = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from {type(sample).__module__} import {type(sample).__name__}
        server = {type(sample).__name__}(Path({str(sample.binary)!r})).start()
        server.pause()
        print(server.pid, server.folder, flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        parent.kill()
    try:
        assert wait_until(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(int(pid)))
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


def test_backend_started_from_a_thread_outlives_it(build: Start) -> None:
    """The kernel's watch is on a thread: a server started by a worker thread must not end with that thread."""
    server = build()
    try:
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()
        os.kill(server.pid, signal.SIGCONT)
        assert server.query("vector(1)")
        assert server.is_running
    finally:
        server.close()


def test_prometheus_serves_https_and_basic_authentication_below_a_prefix(
    prometheus3_binary: Path, tmp_path: Path
) -> None:
    """With a web configuration, its own readiness check and queries still work, and strangers are refused."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    issued.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    web_config = tmp_path / "web.yml"
    # The password is "secret", hashed with bcrypt at its lowest cost.
    web_config.write_text(
        "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"
        "basic_auth_users: {alice: $2b$04$npwbJfkO1Oqq9Yx4Vm/fdOhmxKNws07zJFXgri.kbvrFPNgdZwbr6}\n"
    )
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with Prometheus(
        prometheus3_binary,
        web_config_file=web_config,
        request_headers={"Authorization": "Basic YWxpY2U6c2VjcmV0"},
        ssl_context=trusting,
        route_prefix="/prom/",
    ) as server:
        assert server.url == f"https://127.0.0.1:{server.port}/prom"
        assert server.query("vector(1)")
        server._request_headers.clear()
        with pytest.raises(urllib.error.HTTPError) as caught:
            server.query("vector(1)")
        assert caught.value.code == 401


def test_prometheus_records_rules_and_takes_extra_configuration(prometheus2_binary: Path, exporter: Exporter) -> None:
    """Recording rules are evaluated, and configuration given beside the jobs is in force."""
    with Prometheus(
        prometheus2_binary,
        jobs=[ScrapeJob(name="queue", targets=(exporter.target,), interval_s=0.2)],
        rule_groups=[{"name": "queues", "rules": [{"record": "queue:depth:sum", "expr": "sum(queue_depth)"}]}],
        extra_config={"global": {"external_labels": {"cluster": "one"}}},
        retention="1h",
    ) as server:
        assert server.wait_for("queue:depth:sum")[0]["value"][1] == "3"
        assert b"cluster: one" in server.request("/api/v1/status/config")


def test_victoria_hides_the_newest_samples_unless_asked(victoria_binary: Path) -> None:
    """The 30 seconds that it holds back by default are in force here, as in production."""
    with VictoriaMetrics(victoria_binary) as server:
        server.import_text("imported 5\n")
        assert server.wait_for("imported")[0]["value"][1] == "5"
        assert server.query("imported", params={}) == []


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
