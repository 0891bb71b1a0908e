"""A control plane ends with its owner, ends nothing else, and says why it did not begin."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.cluster import ClusterFailed, ControlPlane, find_programs
from loadgen.cluster.background import BackgroundState, find_mark, load_state, start_background, stop_background

DEADLINE_S = 20.0


@pytest.fixture
def background(tmp_path: Path) -> Iterator[BackgroundState]:
    """A control plane in the background."""
    try:
        yield start_background(tmp_path, hpa_sync_period_s=2.0, report=print)
    finally:
        stop_background(tmp_path, report=print)


def test_background_serves_until_it_is_ended_and_leaves_only_logs(background: BackgroundState, tmp_path: Path) -> None:
    """The kubeconfig works for anyone's kubectl; once ended, no process, key or temporary folder is left."""
    arguments = [f"--kubeconfig={background.kubeconfig}", "get", "--raw", "/readyz"]
    kubectl = str(find_programs()["kubectl"])
    said = subprocess.run([kubectl, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "ok"
    assert start_background(tmp_path, hpa_sync_period_s=2.0, report=print) == background
    assert stop_background(tmp_path, report=print)
    assert [mark.name for mark in (*background.parts, background.holder) if mark.is_alive] == []
    assert [path for path in background.folders if path.exists()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holder.log", "lock", "logs"]
    assert not stop_background(tmp_path, report=print)


def test_servers_end_with_a_killed_holder_and_the_next_end_cleans_up(
    background: BackgroundState, tmp_path: Path
) -> None:
    """However the owner ends, no server stays behind."""
    os.kill(background.holder.pid, signal.SIGKILL)
    assert all(mark.wait_for_end(DEADLINE_S) for mark in background.parts)
    assert stop_background(tmp_path, report=print)
    assert [path for path in background.folders if path.exists()] == []


def write_program(path: Path, text: str) -> Path:
    """Write a shell script in place of a server."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("part", "name"),
    [
        pytest.param("etcd-server", "etcd", id="the first"),
        pytest.param("kube-scheduler", "kube-scheduler", id="one of the last"),
    ],
)
def test_part_that_cannot_start_is_named_with_its_own_words(part: str, name: str, tmp_path: Path) -> None:
    """The error says which part failed and quotes its log; logs are kept where asked, and the others are ended."""
    broken = write_program(tmp_path / "broken", "echo 'unknown flag: --some-flag' >&2; exit 1")
    cluster = ControlPlane({**find_programs(), part: broken}, keep_logs_in=tmp_path / "logs")
    with pytest.raises(ClusterFailed) as caught, cluster:
        pytest.fail("it started")
    assert caught.value.part == name
    assert caught.value.log_tail == "unknown flag: --some-flag"
    assert caught.value.next_step
    assert "unknown flag" in (tmp_path / "logs" / f"{name}.log").read_text()
    assert not any(server.is_running for server in cluster.parts.values())
    assert not cluster.folder.exists()


def test_background_that_does_not_come_up_says_so_and_leaves_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the holder said is the error; nothing counts as up."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name, program in find_programs().items():
        if name != "etcd-server":
            (assets / name).symlink_to(program)
    write_program(assets / "etcd", "echo 'no such luck' >&2; exit 1")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    folder = tmp_path / "cluster"
    with pytest.raises(ClusterFailed) as caught:
        start_background(folder, hpa_sync_period_s=2.0, report=print)
    assert "no such luck" in caught.value.log_tail
    assert str(folder / "logs") in caught.value.next_step
    assert load_state(folder) is None


def test_servers_end_with_a_killed_owner(tmp_path: Path) -> None:
    """Also a test run that is killed leaves no server behind."""
    script = write_owner(tmp_path / "owner.py")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        *pids, folders = owner.stdout.readline().split()
        owner.kill()
    try:
        assert all(wait_for_end(int(pid)) for pid in pids)
    finally:
        subprocess.run(["rm", "-r", *folders.split(":")], check=True)


def write_owner(path: Path) -> Path:
    """Write a program that starts a control plane, prints its processes and folders, and waits."""
    path.write_text(
        "import signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})\n"
        "from loadgen.cluster import ControlPlane, find_programs\n"
        "with ControlPlane(find_programs()) as cluster:\n"
        "    folders = [cluster.folder, *(server.folder for server in cluster.parts.values())]\n"
        "    print(*(s.pid for s in cluster.parts.values()), ':'.join(map(str, folders)), flush=True)\n"
        "    signal.pause()\n"
    )
    return path


def wait_for_end(pid: int) -> bool:
    """Wait until there is no process *pid*."""
    mark = find_mark("server", pid)
    return mark is None or mark.wait_for_end(DEADLINE_S)
