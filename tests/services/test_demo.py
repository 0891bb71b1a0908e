"""The demonstration passes with the real adapter, fails with one that lies, and leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from loadgen.demo.plan import Phase, PhaseName, Plan
from loadgen.demo.run import Options, run_demo
from loadgen.demo.screen import PlainScreen
from loadgen.hops import read_adapter
from loadgen.parts.process import ServerProcess

LYING_ADAPTER = Path(__file__).parent.parent / "support" / "lying_adapter.py"
LOADGEN = Path(sys.executable).parent / "loadgen"
SHORT = Plan(
    phases=(
        Phase(name=PhaseName.RISING, duration_s=4, arrivals_per_s=70),
        Phase(name=PhaseName.EXPORTER_KILLED, duration_s=6, arrivals_per_s=50),
    ),
    slack_s=1.5,
)


@pytest.fixture
def lying_adapter(tmp_path: Path) -> Path:
    """A program in place of `depthgauge`."""
    program = tmp_path / "depthgauge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{LYING_ADAPTER}" "$@"\n')
    program.chmod(0o755)
    return program


class RunningDemo:
    """`loadgen demo --plain` as a person starts it; its output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.output = ""

    def read_until(self, text: str) -> str:
        """Return the line that holds *text*; what was read before is in `output`."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line
            if text in line:
                return line
        raise AssertionError(f"it ended before it said {text!r}:\n{self.output}")

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.stdout is not None
        self.output += self._process.stdout.read()
        return self._process.wait(timeout=30)

    def find_urls(self) -> dict[str, str]:
        """Return the addresses that it said, by the name of the server."""
        return dict(re.findall(r"\] (\S+): (http://127\.0\.0\.1:\d+)", self.output))


@contextmanager
def start_demo(folder: Path, *options: str, **environ: str) -> Iterator[RunningDemo]:
    """Start the command with its files in *folder*."""
    with subprocess.Popen(
        [LOADGEN, "demo", "--plain", "--folder", folder, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environ},
    ) as process:
        try:
            yield RunningDemo(process)
        finally:
            process.kill()


def is_listening(url: str) -> bool:
    """Whether anything takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.timeout(240)
def test_demo_passes_with_the_real_adapter_and_what_it_prints_to_try_next_works(
    prometheus2_binary: Path, tmp_path: Path
) -> None:
    """Every phase as expected within 90 s, no number while the exporter is dead, and the two addresses as described."""
    assert prometheus2_binary
    with start_demo(tmp_path, "--keep") as demo:
        demo.read_until("Everything keeps running")
        value_url, error_url = (demo.read_until("curl -s ").split("'")[1] for _ in range(2))
        demo.read_until("Ctrl-C stops")
        value, error = read_adapter(value_url), read_adapter(error_url)
        code = demo.interrupt()
    assert code == 0, demo.output
    assert value.value is not None
    assert (error.code, error.reason) == (404, "NoMatch")

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["ok"] is True
    assert [(phase["name"], phase["ok"]) for phase in summary["phases"]] == [(name.value, True) for name in PhaseName]
    assert summary["run_s"] < 90
    looks = [json.loads(line) for line in (tmp_path / "chain.ndjson").read_text().splitlines()]
    outage = [look["adapter"] for look in looks if look["phase"] == "exporter-killed"]
    assert outage[-1]["reason"]
    assert not [answer for answer in outage if answer.get("value") == "0"]
    assert not [url for url in demo.find_urls().values() if is_listening(url)]


@pytest.mark.parametrize(
    ("lie", "failed"),
    [
        pytest.param("always-zero", {"rising", "exporter-killed"}, id="always-zero"),
        pytest.param("zero-when-empty", {"exporter-killed"}, id="zero-when-empty"),
        pytest.param("last-when-empty", {"exporter-killed"}, id="last-when-empty"),
    ],
)
def test_demo_fails_and_names_the_phase_when_the_adapter_hides_what_it_does_not_know(  # noqa: PLR0917  # fixtures
    lie: str,
    failed: set[str],
    prometheus2_binary: Path,
    lying_adapter: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A 0, or the last number on and on, is a failure of the phase: exit code, summary and output say so."""
    assert prometheus2_binary
    monkeypatch.setenv("LYING_ADAPTER", lie)
    output = StringIO()
    options = Options(adapter=lying_adapter, folder=tmp_path, summary=tmp_path / "s" / "summary.json", plan=SHORT)
    code = run_demo(options, PlainScreen(Console(file=output)), afterwards=lambda _chain, _outcome, _ending: None)
    assert code == 1
    summary = json.loads(options.summary.read_text())
    assert summary["ok"] is False
    assert {phase["name"] for phase in summary["phases"] if not phase["ok"]} == failed, summary
    assert set(re.findall(r"^FAIL (\S+)$", output.getvalue(), re.MULTILINE)) == failed
    killed = next(phase for phase in summary["phases"] if phase["name"] == "exporter-killed")
    assert "WRONG" in killed["observed"]


def test_demo_ends_with_130_and_stops_everything_on_ctrl_c(
    prometheus2_binary: Path, lying_adapter: Path, tmp_path: Path
) -> None:
    """Interrupted in a phase, it says so in a summary of its own and leaves no server behind."""
    assert prometheus2_binary
    (tmp_path / "summary.json").write_text('{"ok": true}')
    options = ("--adapter", str(lying_adapter))
    with start_demo(tmp_path, *options, LYING_ADAPTER="last-when-empty", TMPDIR=str(tmp_path)) as demo:
        demo.read_until("] rising ")
        urls = demo.find_urls()
        assert sorted(urls) == ["Prometheus", "adapter", "exporter"]
        assert all(is_listening(url) for url in urls.values())
        code = demo.interrupt()
    assert code == 130
    assert "interrupted: 0 of 5 phases were over" in demo.output
    assert "Traceback" not in demo.output
    assert [url for url in urls.values() if is_listening(url)] == []
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["ok"], summary["interrupted"]) == (False, True)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_demo_says_what_failed_when_the_adapter_cannot_start(prometheus2_binary: Path, tmp_path: Path) -> None:
    """The adapter's own words are in the output, and the summary is not that of a success."""
    assert prometheus2_binary
    broken = tmp_path / "depthgauge"
    broken.write_text("#!/bin/sh\necho out of cheese >&2\nexit 3\n")
    broken.chmod(0o755)
    output = StringIO()
    options = Options(adapter=broken, folder=tmp_path, summary=tmp_path / "summary.json", plan=SHORT)
    code = run_demo(options, PlainScreen(Console(file=output)), afterwards=lambda _chain, _outcome, _ending: None)
    assert code == 1
    assert "out of cheese" in output.getvalue()
    summary = json.loads(options.summary.read_text())
    assert summary["ok"] is False
    assert "out of cheese" in summary["failure"]


class _QuickToEnd(ServerProcess):
    """A server that has ended before anyone waits for its end."""

    def build_arguments(self, port: int) -> list[str]:
        return ["-m", "http.server", "--bind", "127.0.0.1", str(port)]

    def _signal(self, number: signal.Signals) -> None:
        super()._signal(number)
        if number is signal.SIGTERM:
            deadline_s = time.monotonic() + 10
            while self.is_running and time.monotonic() < deadline_s:
                time.sleep(0.01)


def test_server_that_ends_at_once_is_stopped_without_an_error() -> None:
    """A server may end between being told to and being waited for."""
    server = _QuickToEnd("quick", Path(sys.executable), ready_path="/").start()
    server.close()
    assert not server.is_running
    assert not server.folder.exists()
