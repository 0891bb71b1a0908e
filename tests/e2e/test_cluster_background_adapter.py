"""What `scripts/cluster up` gives to play with: a registered adapter, depth and rules to edit, an HPA that follows."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadgen.cluster import ClusterFailed, ControlPlane, find_programs
from loadgen.cluster.background import BackgroundState, start_background, stop_background
from loadgen.cluster.example import MISTYPED_QUEUE, NAMESPACE, WORKLOAD, build_path
from loadgen.cluster.playground import NODE, Playground, PlaygroundPlaces, PlaygroundPrograms

POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Player:
    """A person with a shell, after `scripts/cluster up`."""

    state: BackgroundState
    places: PlaygroundPlaces

    def kubectl(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run kubectl as the printed `export KUBECONFIG` has it."""
        environ = os.environ | {"KUBECONFIG": str(self.state.kubeconfig)}
        command = [str(find_programs()["kubectl"]), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=60)

    def set_depth(self, value: int) -> None:
        """Edit the depth of the queue `orders` in place, as an editor does."""
        path = Path(self.places.depths)
        text = re.sub(r'(?m)^(myapp_queue_length\{queue="orders"\}) .*$', rf"\1 {value}", path.read_text())
        path.write_text(text)

    def read_replicas(self) -> int:
        """Return what the deployment is told to have."""
        said = self.kubectl("get", "deployment", WORKLOAD, "-n", NAMESPACE, "-o", "jsonpath={.spec.replicas}")
        return int(said.stdout)

    def wait_for(self, is_reached: Callable[[], bool], *, what: str, timeout_s: float = 40.0) -> None:
        """Poll until *is_reached*."""
        deadline_s = time.monotonic() + timeout_s
        while not is_reached():
            assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
            time.sleep(POLL_S)


def play(state: BackgroundState) -> Player:
    """Return the player of a cluster that was asked to have an adapter."""
    assert state.playground is not None
    return Player(state, state.playground)


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """One cluster for the tests that leave it up."""
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield play(start_background(folder, hpa_sync_period_s=2.0, report=print, has_adapter=True))
    finally:
        stop_background(folder, report=print)


def test_kubectl_gets_the_value_and_an_error_that_names_the_cause(player: Player) -> None:
    """Both commands that `up` prints answer at once: one with the depth of the file, one with what was mistyped."""
    value = player.kubectl("get", "--raw", build_path())
    assert value.stderr == ""
    items = json.loads(value.stdout)["items"]
    assert [(item["metricName"], item["metricLabels"]) for item in items] == [("queue_length", {"queue": "orders"})]
    assert int(items[0]["value"]) > 0
    error = player.kubectl("get", "--raw", build_path(MISTYPED_QUEUE))
    assert error.returncode == 1
    assert f"none of the 2 series matches queue={MISTYPED_QUEUE}" in error.stderr


def test_hpa_follows_the_edited_depth_up_and_down(player: Player) -> None:
    """One replica for each 100 messages of the file, also when it says fewer, after a window that can be watched."""
    player.set_depth(250)
    player.wait_for(lambda: player.read_replicas() == 3, what="3 replicas")
    player.set_depth(600)
    player.wait_for(lambda: player.read_replicas() == 6, what="6 replicas")
    player.set_depth(120)
    player.wait_for(lambda: player.read_replicas() == 2, what="2 replicas")


def test_edited_rules_count_at_once_and_broken_ones_are_in_the_log(player: Player) -> None:
    """A rule that is added to the file is served; a mistake is told in the log that `up` names, and changes nothing."""
    path = Path(player.places.rules)
    whole = path.read_text()
    asked = build_path().partition("/queue_length")[0] + "/everything"
    path.write_text(f"{whole}- name: everything\n  query: count(myapp_queue_length)\n")
    player.wait_for(lambda: player.kubectl("get", "--raw", asked).returncode == 0, what="the new metric")
    assert json.loads(player.kubectl("get", "--raw", asked).stdout)["items"][0]["value"] == "2"
    path.write_text(f"{path.read_text()}  hodl: 1m\n")
    log = Path(player.places.adapter_log)
    player.wait_for(lambda: "metrics[1].hodl: Unknown key" in log.read_text(), what="the problem in the log")
    assert player.kubectl("get", "--raw", asked).returncode == 0
    path.write_text(whole)


def test_adapter_runs_as_its_service_account_and_is_told_among_the_parts(player: Player) -> None:
    """It is no administrator, so that what works here works with the rights that a cluster gives it."""
    names = [mark.name for mark in player.state.parts if mark.is_alive]
    assert names[-3:] == ["exporter", "prometheus", "depthgauge"]
    user = "--as=system:serviceaccount:monitoring:adapter"
    adapter = next(mark for mark in player.state.parts if mark.name == "depthgauge")
    arguments = Path(f"/proc/{adapter.pid}/cmdline").read_text().split("\0")
    kubeconfig = next(argument for argument in arguments if argument.startswith("--kubeconfig="))
    who = player.kubectl("auth", "whoami", kubeconfig, "-o", "jsonpath={.status.userInfo.username}")
    assert who.stdout == "system:serviceaccount:monitoring:adapter"
    review = player.kubectl("auth", "can-i", "create", "subjectaccessreviews.authorization.k8s.io", user)
    assert review.stdout.strip() == "yes"
    assert player.kubectl("auth", "can-i", "delete", "pods", user).stdout.strip() == "no"


def test_down_ends_every_process_and_keeps_what_was_edited(tmp_path: Path) -> None:
    """No process and no temporary folder is left; the logs are, and beside them the files that someone worked on."""
    try:
        player = play(start_background(tmp_path, hpa_sync_period_s=2.0, report=print, has_adapter=True))
        player.set_depth(4711)
    finally:
        assert stop_background(tmp_path, report=print)
    state = player.state
    assert [mark.name for mark in (*state.parts, state.holder) if mark.is_alive] == []
    assert [path for path in state.folders if path.exists()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holder.log", "lock", "logs"]
    assert "4711" in (tmp_path / "logs" / "metrics.prom").read_text()
    assert "serving url=" in (tmp_path / "logs" / "depthgauge.log").read_text()
    assert {f"{mark.name}.log" for mark in state.parts} <= {path.name for path in (tmp_path / "logs").iterdir()}


def test_adapter_that_cannot_start_is_named_with_its_own_words(
    control_plane: ControlPlane, prometheus_binary: Path, tmp_path: Path
) -> None:
    """The error says which part failed, quotes its log and leaves none of the others running."""
    broken = tmp_path / "depthgauge"
    broken.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    programs = PlaygroundPrograms(prometheus=prometheus_binary, adapter=broken)
    playground = Playground(control_plane, programs=programs, folder=tmp_path, report=print)
    try:
        with pytest.raises(ClusterFailed) as caught, playground:
            pytest.fail("it started")
    finally:
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false", "--ignore-not-found")
        control_plane.kubectl("delete", "node", NODE, "--ignore-not-found")
    assert caught.value.part == "depthgauge"
    assert caught.value.log_tail == "no such luck"
    assert caught.value.next_step
    assert [server.name for server in playground.servers] == ["exporter", "prometheus", "depthgauge"]
    assert not any(server.is_running for server in playground.servers)
    assert not any(server.folder.exists() for server in playground.servers)
