"""Processes of the background are told apart from all others: none of another program is ever ended."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.cluster.background import ProcessMark, find_mark, load_state

DEADLINE_S = 10.0


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"]) as running:
        yield running
        running.kill()


def find(process: subprocess.Popen[bytes]) -> ProcessMark:
    """Return the mark of a running process."""
    mark = find_mark("sleeper", process.pid)
    assert mark is not None
    return mark


def test_mark_ends_its_own_process(process: subprocess.Popen[bytes]) -> None:
    """The process that was marked gets the signal, and its end is seen."""
    mark = find(process)
    assert mark.is_alive
    assert mark.memory_bytes > 0
    mark.end(signal.SIGTERM)
    assert mark.wait_for_end(DEADLINE_S)
    assert process.wait(DEADLINE_S) == -signal.SIGTERM
    assert mark.memory_bytes == 0
    assert find_mark("sleeper", mark.pid) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"start_ticks": 1}, id="the ID was given anew"),
        pytest.param({"boot_id": "another"}, id="the machine was started anew"),
    ],
)
def test_mark_spares_another_process_with_the_same_id(
    process: subprocess.Popen[bytes], other: dict[str, object]
) -> None:
    """An ID that belongs to another process by now is left alone, and counts as ended."""
    stale = dataclasses.replace(find(process), **other)  # type: ignore[arg-type]  # its fields, by name
    assert not stale.is_alive
    assert stale.wait_for_end(DEADLINE_S)
    stale.end(signal.SIGKILL)
    find(process).end(signal.SIGTERM)  # a SIGKILL sent before it would win
    assert process.wait(DEADLINE_S) == -signal.SIGTERM


def test_mark_of_a_process_that_is_gone_ends_nothing(process: subprocess.Popen[bytes]) -> None:
    """Ending twice is no error."""
    mark = find(process)
    process.kill()
    process.wait(DEADLINE_S)
    mark.end(signal.SIGTERM)
    assert mark.wait_for_end(DEADLINE_S)
    assert find_mark("sleeper", mark.pid) is None


def test_process_that_has_ended_but_was_not_waited_for_is_none(process: subprocess.Popen[bytes]) -> None:
    """What the kernel keeps of an ended process is no process."""
    mark = find(process)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert find_mark("sleeper", process.pid) is None
    assert mark.wait_for_end(DEADLINE_S)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(None, id="no file"),
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param('{"holder": {"pid": 1}}', id="incomplete"),
    ],
)
def test_state_that_cannot_be_read_is_none(tmp_path: Path, written: str | None) -> None:
    """A torn or foreign file means that nothing is known to be up; no process is guessed at."""
    if written is not None:
        (tmp_path / "state.json").write_text(written)
    assert load_state(tmp_path) is None
