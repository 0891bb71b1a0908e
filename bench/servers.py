"""The two servers that are compared, each a process of its own behind the same TLS."""

import json
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from loadgen.parts.process import LOOPBACK, ServerProcess, find_free_port


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What the servers show and whom they let in, and what the client shows and whom it believes."""

    server_cert: Path
    server_key: Path
    server_ca: Path
    client_cert: Path
    client_key: Path
    client_cas: Path

    def build_client_context(self) -> ssl.SSLContext:
        """Return the context of a client with the front proxy's certificate."""
        context = ssl.create_default_context(cafile=str(self.server_ca))
        context.load_cert_chain(self.client_cert, self.client_key)
        return context


class Depthgauge(ServerProcess):
    """`depthgauge serve` as a cluster has it. *profile_to* is where to write a profile (cProfile) when it ends."""

    def __init__(
        self, config: Mapping[str, object], tls: TlsFiles, *, kubeconfig: Path, profile_to: Path | None = None
    ) -> None:
        command = Path(sys.executable).parent / "depthgauge"
        binary = command if profile_to is None else Path(sys.executable)
        context = tls.build_client_context()
        super().__init__("depthgauge", binary, ready_path="/readyz", ready_timeout_s=60.0, ssl_context=context)
        self._prefix = [] if profile_to is None else ["-m", "cProfile", "-o", str(profile_to), str(command)]
        self._config_path = self.folder / "depthgauge.yaml"
        self._config_path.write_text(yaml.safe_dump(dict(config), sort_keys=False))
        self._tls = tls
        self._kubeconfig = kubeconfig
        self.ops_port = find_free_port()

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line."""
        return [
            *self._prefix,
            *("serve", "--config", str(self._config_path), "--listen", f"{LOOPBACK}:{port}"),
            *("--tls-cert-file", str(self._tls.server_cert), "--tls-key-file", str(self._tls.server_key)),
            *("--kubeconfig", str(self._kubeconfig), "--ops-listen", f"{LOOPBACK}:{self.ops_port}"),
            *("--shutdown-delay", "0"),
        ]


class Bare(ServerProcess):
    """The bare app; *answers* maps targets to (status, headers, body)."""

    def __init__(self, answers: Mapping[str, tuple[int, list[tuple[str, str]], str]], tls: TlsFiles) -> None:
        context = tls.build_client_context()
        super().__init__("bare", Path(sys.executable), ready_path="/readyz", ssl_context=context)
        self._answers_path = self.folder / "answers.json"
        self._answers_path.write_text(json.dumps(answers))
        self._tls = tls

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line."""
        files = (self._answers_path, self._tls.server_cert, self._tls.server_key, self._tls.client_cas)
        return [str(Path(__file__).with_name("bare.py")), str(port), *map(str, files)]


def pin(pid: int, cpu: int | None) -> None:
    """Keep all threads of process *pid* on one CPU."""
    if cpu is not None:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cpu})


def read_rss_mb(pid: int) -> float:
    """Return the resident memory of process *pid*, in 10^6 bytes. Source: proc(5), /proc/PID/statm, in pages."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
