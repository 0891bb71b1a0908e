"""The project's own servers as child processes: the exporter, and the adapter as its users run it."""

import shutil
import sys
from pathlib import Path

from loadgen.parts.process import LOOPBACK, ServerProcess


class ExporterProcess(ServerProcess):
    """`loadgen exporter`, so that killing it is what killing an exporter is."""

    def __init__(self, queue_url: str, *, ready_timeout_s: float = 30.0) -> None:
        super().__init__("exporter", Path(sys.executable), ready_path="/metrics", ready_timeout_s=ready_timeout_s)
        self._queue_url = queue_url

    def build_arguments(self, port: int) -> list[str]:
        """Return the arguments of the Python interpreter."""
        return ["-m", "loadgen", "exporter", "--queue-url", self._queue_url, "--listen", f"{LOOPBACK}:{port}"]


class AdapterProcess(ServerProcess):
    """`depthgauge serve` on plain HTTP.

    Args:
        binary: the program; see `find_adapter`.
        config: its configuration file.
        port: where it listens; None picks a free port.
        ready_timeout_s: how long a start may take.
    """

    def __init__(self, binary: Path, *, config: Path, port: int | None = None, ready_timeout_s: float = 30.0) -> None:
        super().__init__("depthgauge", binary, ready_path="/readyz", ready_timeout_s=ready_timeout_s)
        self._config = config.resolve()
        self._port = port

    def build_arguments(self, port: int) -> list[str]:
        """Return the arguments of `depthgauge`."""
        return ["serve", "--config", str(self._config), "--dev-http", f"{LOOPBACK}:{port}"]


def find_adapter() -> Path | None:
    """Return the `depthgauge` command of the environment that this program runs in, else the one on PATH, or None."""
    beside = Path(sys.executable).parent / "depthgauge"
    if beside.is_file():
        return beside
    found = shutil.which("depthgauge")
    return None if found is None else Path(found)
