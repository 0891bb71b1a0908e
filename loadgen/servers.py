"""The project's own servers as child processes: the exporters, and the adapter as its users run it."""

import shutil
import ssl
import sys
from pathlib import Path

from loadgen.parts.process import LOOPBACK, ServerProcess, find_free_port


class ExporterProcess(ServerProcess):
    """`loadgen exporter`, so that killing it is what killing an exporter is."""

    def __init__(self, queue_url: str, *, ready_timeout_s: float = 30.0) -> None:
        super().__init__("exporter", Path(sys.executable), ready_path="/metrics", ready_timeout_s=ready_timeout_s)
        self._queue_url = queue_url

    def build_arguments(self, port: int) -> list[str]:
        """Return the arguments of the Python interpreter."""
        return ["-m", "loadgen", "exporter", "--queue-url", self._queue_url, "--listen", f"{LOOPBACK}:{port}"]


class TextExporterProcess(ServerProcess):
    """`loadgen exporter --text-file`: *text_file* is what Prometheus gets."""

    def __init__(self, text_file: Path, *, ready_timeout_s: float = 30.0) -> None:
        super().__init__("exporter", Path(sys.executable), ready_path="/metrics", ready_timeout_s=ready_timeout_s)
        self._text_file = text_file.resolve()

    def build_arguments(self, port: int) -> list[str]:
        """Return the arguments of the Python interpreter."""
        return ["-m", "loadgen", "exporter", f"--text-file={self._text_file}", f"--listen={LOOPBACK}:{port}"]


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


class SecureAdapterProcess(ServerProcess):
    """`depthgauge serve --listen`: over TLS, as an aggregated API server.

    Args:
        binary: the program; see `find_adapter`.
        config: its configuration file.
        kubeconfig: how it reaches the cluster, and who it is there.
        serving: its certificate for clients, and the key.
        ssl_context: verifies it when it is polled here.
        ready_timeout_s: how long a start may take.

    Attributes:
        ops_port: where it serves `/metrics`, `/livez` and `/readyz` over plain HTTP; another one after each start.
    """

    def __init__(  # noqa: PLR0913  # by keyword
        self,
        binary: Path,
        *,
        config: Path,
        kubeconfig: Path,
        serving: tuple[Path, Path],
        ssl_context: ssl.SSLContext,
        ready_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            "depthgauge", binary, ready_path="/readyz", ready_timeout_s=ready_timeout_s, ssl_context=ssl_context
        )
        self._config = config.resolve()
        self._kubeconfig = kubeconfig
        self._serving = serving
        self.ops_port = 0

    def build_arguments(self, port: int) -> list[str]:
        """Return the arguments of `depthgauge`."""
        self.ops_port = find_free_port()
        return [
            "serve",
            f"--config={self._config}",
            f"--listen={LOOPBACK}:{port}",
            f"--ops-listen={LOOPBACK}:{self.ops_port}",
            f"--tls-cert-file={self._serving[0]}",
            f"--tls-key-file={self._serving[1]}",
            f"--kubeconfig={self._kubeconfig}",
        ]


def find_adapter() -> Path | None:
    """Return the `depthgauge` command of the environment that this program runs in, else the one on PATH, or None."""
    beside = Path(sys.executable).parent / "depthgauge"
    if beside.is_file():
        return beside
    found = shutil.which("depthgauge")
    return None if found is None else Path(found)
