"""A real server as a child process: on a free loopback port, paused, killed, started again, and always ended."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
POLL_S = 0.05
REQUEST_DEADLINE_S = 5.0
STOP_DEADLINE_S = 10.0
SIGNAL_DEADLINE_S = 5.0
PORT_ATTEMPTS = 5
LOG_TAIL_LINES = 20
ERROR_BODY_BYTES = 2048

# Runs before the server, in its process: asks the kernel to end it with its parent, then becomes the server. Not a
# preexec_fn: that forks a process with threads, which can hang. 1 is PR_SET_PDEATHSIG (prctl(2), kept over execve).
LAUNCHER = """\
import ctypes, os, signal, sys
parent = int(sys.argv[1])
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (OSError, AttributeError):
    pass
if os.getppid() != parent:
    sys.exit("the parent ended first")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerFailed(Exception):
    """A server did not start, ended by itself, or did not do in time what was waited for.

    Attributes:
        name: the server's name.
        cause: what was expected and did not happen.
        log_tail: the last lines of its log.
    """

    def __init__(self, *, name: str, cause: str, log_tail: str) -> None:
        super().__init__(f"{name}: {cause}\n--- end of its log ---\n{log_tail}")
        self.name = name
        self.cause = cause
        self.log_tail = log_tail


def find_free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on now; another process may still take it first."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class ServerProcess(ABC):
    """A server with its own temporary folder, log and port.

    It keeps port and data over `stop()`, `kill()` and `start()`; `close()`, or leaving a `with` block, removes the
    folder. It ends with the process that started it, killed or not (on Linux, and when started from the main thread:
    the kernel watches the starting thread).

    Attributes:
        name: what errors call it.
        folder: configuration, data and log; removed by `close()`.
        log_path: the server's standard output and error.
    """

    def __init__(  # noqa: PLR0913  # all but the first two by keyword
        self,
        name: str,
        binary: Path,
        *,
        ready_path: str,
        ready_timeout_s: float = 30.0,
        url_path: str = "",
        request_headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.log_path = self.folder / "server.log"
        self._ready_path = ready_path
        self._ready_timeout_s = ready_timeout_s
        self._url_path = url_path
        self._request_headers = dict(request_headers or {})
        self._ssl_context = ssl_context
        self._port: int | None = None
        self._is_first_start = True
        self._is_launched = False
        self._process: subprocess.Popen[bytes] | None = None
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if ssl_context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=ssl_context))
        self._opener = urllib.request.build_opener(*handlers)

    @abstractmethod
    def build_arguments(self, port: int) -> list[str]:
        """Return the command line after the program's name, for a server that listens on *port*."""

    @property
    def port(self) -> int:
        """The port it listens on, the same over restarts.

        Raises: ServerFailed before the first start.
        """
        if self._port is None:
            raise self._failure("it was never started")
        return self._port

    @property
    def pid(self) -> int:
        """The process ID of the running server.

        Raises: ServerFailed when it is not running.
        """
        return self._running().pid

    @property
    def url(self) -> str:
        """The base address, without a trailing slash."""
        scheme = "http" if self._ssl_context is None else "https"
        return f"{scheme}://{LOOPBACK}:{self.port}{self._url_path}"

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process and return at once; `start()` then waits until it is ready. So several come up together.

        Raises: ServerFailed when it is running already, or cannot be run.
        """
        if self.is_running:
            raise self._failure("it is running already")
        self._is_first_start = self._port is None
        if self._is_first_start:
            self._port = find_free_port()
        self._launch()
        self._is_launched = True

    def start(self) -> Self:
        """Start the server and return once it is ready.

        The first start picks a free port, and another one if it is taken meanwhile; later starts use the same port.

        Raises: ServerFailed when it ends, or is not ready within `ready_timeout_s`.
        """
        if not self._is_launched:
            self.launch()
        attempts_left = PORT_ATTEMPTS if self._is_first_start else 1
        while True:
            attempts_left -= 1
            try:
                self._await_ready()
            except ServerFailed as exc:
                self.kill()
                if attempts_left == 0 or "address already in use" not in exc.log_tail:
                    if self._is_first_start:
                        self._port = None
                    raise
            except BaseException:
                self.kill()
                raise
            else:
                self._is_launched = False
                return self
            self._port = find_free_port()
            self._launch()

    def stop(self) -> None:
        """Ask the server to end, insist after ten seconds. Nothing happens when it is not running."""
        process = self._process
        if process is not None and process.poll() is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_DEADLINE_S)
        self.kill()

    def kill(self) -> None:
        """End the server at once, paused or not, as a crash would."""
        self._is_launched = False
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze the server: the kernel still accepts connections for it, and no answer ever comes."""
        self._signal(signal.SIGSTOP)
        self._await_state(lambda state: state == "T")

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)
        self._await_state(lambda state: state != "T")

    def close(self) -> None:
        """End the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read_log(self) -> str:
        """Return what the server has printed since its first start."""
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def request(self, path: str, *, body: bytes | None = None, deadline_s: float = REQUEST_DEADLINE_S) -> bytes:
        """Return the body of the server's answer to GET *path*, or to POST where there is a *body*.

        *path* is taken below `url`. Proxy variables are not followed.

        Raises: OSError (its subclass urllib.error.HTTPError, with the body as a note, for an answer that is not 2xx).
        """
        request = urllib.request.Request(self.url + path, data=body, headers=self._request_headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=deadline_s) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as exc:
            with exc:
                exc.add_note(exc.read(ERROR_BODY_BYTES).decode("utf-8", "replace"))
            raise

    def wait_until(self, is_reached: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        """Poll until *is_reached* returns true; an OSError counts as not yet.

        Raises: ServerFailed naming *what* after *timeout_s*, or when the server has ended.
        """
        deadline_s = time.monotonic() + timeout_s
        last_error: OSError | None = None
        while True:
            try:
                if is_reached():
                    return
            except OSError as exc:
                last_error = exc
            if not self.is_running:
                raise self._failure(f"it ended while waiting for {what}")
            if time.monotonic() > deadline_s:
                raise self._failure(f"{what}: not within {timeout_s:g} s ({last_error or 'no error'})") from last_error
            time.sleep(POLL_S)

    def _launch(self) -> None:
        arguments = [str(self.binary), *self.build_arguments(self.port)]
        if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
            arguments = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *arguments]
        with self.log_path.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    arguments,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a group of its own: signals reach its children, Ctrl-C reaches us first
                )
            except OSError as exc:
                raise self._failure(f"cannot run {self.binary}: {exc}") from exc

    def _await_ready(self) -> None:
        def is_ready() -> bool:
            self.request(self._ready_path)
            return self._owns_port()

        self.wait_until(is_ready, what=f"an answer from {self.url}{self._ready_path}", timeout_s=self._ready_timeout_s)

    def _owns_port(self) -> bool:
        """Whether it is this process that listens on the port, not another that took it first.

        Source: proc(5), /proc/net/tcp (local address in hexadecimal, state 0A is LISTEN, the tenth field is the inode).
        """
        try:
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            links = [str(link.readlink()) for link in Path(f"/proc/{self.pid}/fd").iterdir()]
        except OSError:
            return self.is_running
        listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and row[1].endswith(f":{self.port:04X}")}
        return not listening.isdisjoint(links)

    def _signal(self, number: signal.Signals) -> None:
        process = self._running() if self._process is None else self._process
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, number)

    def _await_state(self, is_reached: Callable[[str], bool]) -> None:
        """Wait until the kernel reports the state: signals are delivered some time after kill(2) returns."""
        stat = Path(f"/proc/{self.pid}/stat")
        if stat.exists():
            self.wait_until(
                lambda: is_reached(stat.read_text().rpartition(")")[2].split()[0]),
                what="the signal to be delivered",
                timeout_s=SIGNAL_DEADLINE_S,
            )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise self._failure("it is not running")
        return self._process

    def _failure(self, cause: str) -> ServerFailed:
        return ServerFailed(
            name=self.name, cause=cause, log_tail="\n".join(self.read_log().splitlines()[-LOG_TAIL_LINES:])
        )
