"""A control plane that stays up after the command that started it: who holds it, and how it is found and ended.

One process, the holder, owns the servers: they end with it, however it ends. What it writes down (`state.json`) names
each process by its ID *and* its start time, so that none of another program is ever taken for one of ours.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from loadgen.cluster.controlplane import ControlPlane
from loadgen.cluster.errors import ClusterFailed
from loadgen.cluster.pki import replace_file
from loadgen.cluster.playground import (
    DEPTHS_FILE,
    RULES_FILE,
    Playground,
    PlaygroundPlaces,
    find_playground_programs,
)
from loadgen.cluster.programs import find_programs
from loadgen.parts.cachefolder import find_cache_folder, find_checkout, hold_lock

HOLDER_LOG = "holder.log"
ERROR_PREFIX = "error: "
"""What the holder's last words begin with; lines before are progress."""
HOLDER_END_DEADLINE_S = 30.0
POLL_S = 0.1
FIRST_FIELD = 3
"""The first field of /proc/PID/stat that stands behind the program's name, counted as proc(5) does."""
START_FIELD = 22
MEMORY_FIELD = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process, told apart from any other that had or will have its ID.

    Attributes:
        name: what it is.
        pid: its ID.
        start_ticks: when it started, in the kernel's ticks since boot.
        boot_id: which boot that was.
    """

    name: str
    pid: int
    start_ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        """Whether exactly this process runs now."""
        return find_mark(self.name, self.pid) == self

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory; 0 when it is gone."""
        fields = _read_stat(self.pid) if self.is_alive else None
        return 0 if fields is None else int(fields[MEMORY_FIELD - FIRST_FIELD]) * os.sysconf("SC_PAGE_SIZE")

    def end(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process, or to none: the descriptor keeps the ID from being given anew."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)

    def wait_for_end(self, timeout_s: float) -> bool:
        """Wait until it is gone; False when it is still there after *timeout_s*."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return not self.is_alive or bool(select.select([descriptor], [], [], timeout_s)[0])
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundState:
    """What the holder wrote down once the control plane was ready.

    Attributes:
        holder: the process that owns the others.
        parts: the servers.
        url: where kube-apiserver answers.
        kubeconfig: admin's.
        folders: temporary folders, removed by whoever ends the control plane.
        playground: where to touch the registered adapter and what is around it; None when it was left out.
    """

    holder: ProcessMark
    parts: tuple[ProcessMark, ...]
    url: str
    kubeconfig: Path
    folders: tuple[Path, ...]
    playground: PlaygroundPlaces | None = None


def locate_folder() -> Path:
    """Return the folder for the control plane in the background: state, kubeconfig and logs, in the user's cache.

    Raises: PartUnavailable when there is no place to write to.
    """
    return find_cache_folder(os.environ, checkout=find_checkout()) / "cluster"


def find_mark(name: str, pid: int) -> ProcessMark | None:
    """Return the mark of the process that has this ID now; None when there is none, or only its remains."""
    fields = _read_stat(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return None
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ProcessMark(name=name, pid=pid, start_ticks=int(fields[START_FIELD - FIRST_FIELD]), boot_id=boot_id)


def load_state(folder: Path) -> BackgroundState | None:
    """Return what stands written down in *folder*, whether it still runs or not; None when nothing does."""
    try:
        written = json.loads((folder / "state.json").read_text())
        return BackgroundState(
            holder=ProcessMark(**written["holder"]),
            parts=tuple(ProcessMark(**part) for part in written["parts"]),
            url=written["url"],
            kubeconfig=Path(written["kubeconfig"]),
            folders=tuple(Path(path) for path in written["folders"]),
            playground=None if written["playground"] is None else PlaygroundPlaces(**written["playground"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def start_background(
    folder: Path, *, hpa_sync_period_s: float, report: Callable[[str], None], has_adapter: bool = False
) -> BackgroundState:
    """Start a control plane that stays up, unless there is one, and return once it is ready.

    With *has_adapter* an adapter is registered in it and has something to answer; see `Playground`.

    Raises: ClusterFailed with what the holder said when it did not come up; PartUnavailable when a program is missing.
    """
    find_programs()
    if has_adapter:
        find_playground_programs()
    with hold_lock(folder / "lock", report):
        state = load_state(folder)
        if state is not None and state.holder.is_alive:
            report("a control plane is up already")
            if has_adapter and state.playground is None:
                report("it has no adapter, as asked for when it was started: to have one, down, then up")
            return state
        _end(state, folder)
        holder = _start_holder(folder, hpa_sync_period_s=hpa_sync_period_s, has_adapter=has_adapter)
        try:
            return _await_state(holder, folder=folder, report=report)
        except BaseException:
            holder.end(signal.SIGTERM)
            holder.wait_for_end(HOLDER_END_DEADLINE_S)
            raise


def stop_background(folder: Path, *, report: Callable[[str], None]) -> bool:
    """End the control plane in the background, and only its processes; False when there was none."""
    with hold_lock(folder / "lock", report):
        state = load_state(folder)
        _end(state, folder)
    return state is not None


def hold(folder: Path, *, hpa_sync_period_s: float, has_adapter: bool) -> None:
    """Be the holder: start a control plane, write down what runs, and end it when asked to by SIGTERM or SIGINT.

    Raises: ClusterFailed, PartUnavailable.
    """

    def report(line: str) -> None:
        print(line, flush=True)  # noqa: T201  # its log

    with _ending_on_signals(), contextlib.suppress(SystemExit), contextlib.ExitStack() as running:
        cluster = running.enter_context(
            ControlPlane(
                find_programs(), hpa_sync_period_s=hpa_sync_period_s, keep_logs_in=folder / "logs", report=report
            )
        )
        servers = dict(cluster.parts)
        playground = None
        if has_adapter:
            programs = find_playground_programs()
            playground = running.enter_context(Playground(cluster, programs=programs, folder=folder, report=report))
            servers |= {server.name: server for server in playground.servers}
        kubeconfig = folder / "admin.kubeconfig"
        replace_file(kubeconfig, cluster.kubeconfig_path().read_bytes(), mode=0o600)
        found = [find_mark(name, server.pid) for name, server in servers.items()]
        state = {
            "holder": asdict(_own_mark()),
            "parts": [asdict(mark) for mark in found if mark is not None],
            "url": cluster.url,
            "kubeconfig": str(kubeconfig),
            "folders": [str(path) for path in (*(server.folder for server in servers.values()), cluster.folder)],
            "playground": None if playground is None else asdict(playground.places),
        }
        replace_file(folder / "state.json", json.dumps(state, indent=1).encode())
        while True:
            signal.pause()


def _start_holder(folder: Path, *, hpa_sync_period_s: float, has_adapter: bool) -> ProcessMark:
    """Start the holder as nobody's child: it outlives this process, which need not wait for its end."""
    command = [sys.executable, "-m", "loadgen", "cluster", "hold"]
    command += [f"--folder={folder}", f"--hpa-sync-period-s={hpa_sync_period_s:g}"]
    command.append("--adapter" if has_adapter else "--no-adapter")
    script = '"$@" </dev/null >"$0" 2>&1 & echo $!'
    said = subprocess.run(
        ["/bin/sh", "-c", script, str(folder / HOLDER_LOG), *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    ).stdout
    holder = find_mark("holder", int(said))
    if holder is None:
        raise ClusterFailed(part="cluster", cause="its holder ended at once", log_tail="\n".join(_read_lines(folder)))
    return holder


def _await_state(holder: ProcessMark, *, folder: Path, report: Callable[[str], None]) -> BackgroundState:
    shown = 0
    while True:
        is_alive = holder.is_alive
        lines = _read_lines(folder)
        state = load_state(folder)
        failed = next((number for number, line in enumerate(lines) if line.startswith(ERROR_PREFIX)), len(lines))
        for line in lines[shown:failed]:
            report(line)
        shown = max(shown, failed)
        if is_alive and state is not None and state.holder.pid == holder.pid:
            return state
        if not is_alive:
            raise ClusterFailed(
                part="cluster",
                cause="it did not come up",
                log_tail="\n".join(lines[failed:]).removeprefix(ERROR_PREFIX),
                next_step=f"each part's whole log is in {folder / 'logs'}",
            )
        holder.wait_for_end(POLL_S)


def _read_lines(folder: Path) -> list[str]:
    try:
        return (folder / HOLDER_LOG).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _end(state: BackgroundState | None, folder: Path) -> None:
    if state is not None:
        state.holder.end(signal.SIGTERM)
        if not state.holder.wait_for_end(HOLDER_END_DEADLINE_S):
            state.holder.end(signal.SIGKILL)
            state.holder.wait_for_end(HOLDER_END_DEADLINE_S)
        for (
            part
        ) in state.parts:  # none is left, unless the holder was killed on a kernel that does not end them with it
            part.end(signal.SIGKILL)
            part.wait_for_end(HOLDER_END_DEADLINE_S)
        for path in state.folders:
            shutil.rmtree(path, ignore_errors=True)
    for name in (DEPTHS_FILE, RULES_FILE):  # someone may have worked on them
        if (folder / name).exists():
            (folder / "logs").mkdir(exist_ok=True)
            (folder / name).replace(folder / "logs" / name)
    for name in ("state.json", "admin.kubeconfig"):
        (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # once is enough: the end must not be interrupted
        raise SystemExit

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    yield


def _own_mark() -> ProcessMark:
    mark = find_mark("holder", os.getpid())
    if mark is None:
        raise ClusterFailed(part="cluster", cause="/proc does not show this process", next_step="mount /proc")
    return mark


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on: those before may hold blanks and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
