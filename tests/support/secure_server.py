"""The secure server as a process: `depthgauge serve --listen`, and its clients with and without certificates."""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
import yaml
from cryptography import x509

from loadgen.cluster import CertificateAuthority, Credential
from loadgen.parts.process import LOOPBACK, ServerProcess, find_free_port
from tests.support.adapter import API, Reply


class SecureServer(ServerProcess):
    """One adapter on loopback.

    Args:
        config: its configuration, a document or the text of a file.
        authority: issues its serving certificate, and verifies it here.
        server_name: the DNS name that callers in the cluster know it by; its certificate is for that and for loopback.
        kubeconfig: how it reaches the cluster, and who it is there.
        shutdown_delay_s: how long it goes on after SIGTERM.
        flags: further options of `depthgauge serve`; the last of two equal ones wins.
        environment: further environment variables.

    Attributes:
        ops_port: where it serves `/metrics`, `/livez` and `/readyz` over plain HTTP.
        config_path, cert_path, key_path: its files, read again when they change.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str,
        *,
        authority: CertificateAuthority,
        server_name: str,
        kubeconfig: Path,
        shutdown_delay_s: float = 1.0,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.authority = authority
        self.server_name = server_name
        self.ops_port = find_free_port()
        self._kubeconfig = kubeconfig
        self._environment = dict(environment or {})
        self._flags = [f"--shutdown-delay={shutdown_delay_s:g}", *flags]
        super().__init__(
            "depthgauge",
            Path(sys.executable).parent / "depthgauge",
            ready_path="/readyz",
            ready_timeout_s=60.0,
            ssl_context=self.build_context(),
        )
        self.config_path = self.folder / "config" / "depthgauge.yaml"
        self.config_path.parent.mkdir()
        self.write_config(config)
        self.cert_path, self.key_path = self.write_serving_certificate()
        self._clients: dict[Credential | None, httpx.Client] = {}

    # How it runs

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line of `depthgauge`."""
        return [
            "serve",
            f"--config={self.config_path}",
            f"--listen={LOOPBACK}:{port}",
            f"--tls-cert-file={self.cert_path}",
            f"--tls-key-file={self.key_path}",
            f"--kubeconfig={self._kubeconfig}",
            f"--ops-listen={LOOPBACK}:{self.ops_port}",
            *self._flags,
        ]

    def write_config(self, config: Mapping[str, Any] | str) -> None:
        """Replace the configuration file, atomically."""
        text = config if isinstance(config, str) else yaml.safe_dump(dict(config), sort_keys=False)
        written = self.config_path.with_name(".writing")
        written.write_text(text)
        written.replace(self.config_path)

    def write_serving_certificate(self, credential: Credential | None = None) -> tuple[Path, Path]:
        """Replace the serving certificate and its key by *credential*, by a new one if None; return their paths."""
        credential = credential or self.authority.issue_server(self.server_name, "localhost", LOOPBACK)
        return credential.write(self.folder, "tls")

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        self._running().terminate()

    def wait_for_end(self, *, timeout_s: float = 30.0) -> int:
        """Return the exit code, once it has ended.

        Raises: subprocess.TimeoutExpired.
        """
        process: subprocess.Popen[bytes] = self._process if self._process is not None else self._running()
        return process.wait(timeout=timeout_s)

    def wait_for_log(self, text: str, *, times: int = 1, timeout_s: float = 60.0) -> None:
        """Return once the log contains *text* at least so many times."""
        deadline_s = time.monotonic() + timeout_s
        while self.read_log().count(text) < times:
            assert time.monotonic() < deadline_s, f"{text!r} is not in the log:\n{self.read_log()}"
            time.sleep(0.05)

    def close(self) -> None:
        """End it and its clients."""
        self.hang_up()
        super().close()

    # Who asks it directly

    def get(
        self,
        path: str,
        *,
        credential: Credential | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        method: str = "GET",
    ) -> Reply:
        """Return the answer to a raw path, asked over TLS with the client certificate of *credential*, or without.

        Raises: httpx.TransportError, also where the certificate is refused in the handshake.
        """
        if credential not in self._clients:
            self._clients[credential] = httpx.Client(
                verify=self.build_context(credential), trust_env=False, timeout=30.0
            )
        begun_s = time.monotonic()
        response = self._clients[credential].request(
            method, self.url + path, headers=httpx.Headers(headers, encoding="utf-8")
        )
        took_s = time.monotonic() - begun_s
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return Reply(
            response.status_code, response.headers, json.loads(response.content) if is_json else response.text, took_s
        )

    def ask(
        self,
        metric: str,
        *,
        selector: str = "",
        namespace: str = "default",
        credential: Credential | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """Return the answer to a question about *metric*, asked directly."""
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        path = f"{API}/namespaces/{quote(namespace, safe='')}/{quote(metric, safe='')}{query}"
        return self.get(path, credential=credential, headers=headers)

    def hang_up(self) -> None:
        """Close the connections of `get` and `ask`: the next ones begin with a handshake."""
        while self._clients:
            self._clients.popitem()[1].close()

    def build_context(self, credential: Credential | None = None) -> ssl.SSLContext:
        """Return a context that trusts its authority and shows the certificate of *credential*, if any."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if credential is not None:
            name = f"client-{x509.load_pem_x509_certificate(credential.certificate_pem).serial_number}"
            context.load_cert_chain(*credential.write(self.folder, name))
        return context

    def fetch_serving_serial(self) -> int:
        """Return the serial number of the certificate that it shows in a new handshake."""
        with (
            socket.create_connection((LOOPBACK, self.port), timeout=10) as plain,
            self.build_context().wrap_socket(plain, server_hostname=self.server_name) as tls,
        ):
            return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"").serial_number

    def get_ops(self, path: str) -> httpx.Response:
        """Return the answer of the operations port to *path*, such as `/metrics`."""
        return httpx.get(f"http://{LOOPBACK}:{self.ops_port}{path}", trust_env=False, timeout=10)

    def _launch(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value)
            super()._launch()
