"""The adapter as its users run it: the real command, on a free loopback port, with a test's own configuration."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx
import yaml

from loadgen.parts.process import LOOPBACK, ServerProcess

API = "/apis/external.metrics.k8s.io/v1beta1"


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer of the adapter; *took_s* is what the caller waited, in seconds."""

    code: int
    headers: httpx.Headers
    document: Any
    took_s: float

    @property
    def reason(self) -> str:
        """Our Reason in a Status, empty for a value list."""
        causes = self.document.get("details", {}).get("causes", [])
        return causes[0]["reason"] if causes else ""

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.document["message"])

    @property
    def values(self) -> list[str]:
        """The items' values, in order."""
        return [item["value"] for item in self.document["items"]]


class AdapterServer(ServerProcess):
    """`depthgauge serve --dev-http`; *config* is a document, or the text of a file."""

    def __init__(self, config: Mapping[str, Any] | str) -> None:
        binary = Path(sys.executable).parent / "depthgauge"
        super().__init__("depthgauge", binary, ready_path="/readyz", ready_timeout_s=60.0)
        self.config_path = self.folder / "config" / "depthgauge.yaml"
        self.config_path.parent.mkdir()
        self.write_config(config)
        self._client = httpx.Client(trust_env=False, timeout=30.0)

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line of `depthgauge`."""
        return ["serve", "--config", str(self.config_path), "--dev-http", f"{LOOPBACK}:{port}"]

    def write_config(self, config: Mapping[str, Any] | str | bytes) -> None:
        """Replace the configuration file, atomically."""
        text = config if isinstance(config, str | bytes) else yaml.safe_dump(dict(config), sort_keys=False)
        written = self.config_path.with_name(".writing")
        written.write_bytes(text if isinstance(text, bytes) else text.encode())
        written.replace(self.config_path)

    def get(self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Reply:
        """Return the answer to a raw path."""
        begun_s = time.monotonic()
        response = self._client.request(method, self.url + path, headers=dict(headers or {}))
        took_s = time.monotonic() - begun_s
        return Reply(response.status_code, response.headers, json.loads(response.content or b"null"), took_s)

    def ask(self, metric: str, *, selector: str = "", namespace: str = "default") -> Reply:
        """Return the answer to a question about *metric*, asked as the HPA controller asks it."""
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        return self.get(f"{API}/namespaces/{quote(namespace, safe='')}/{quote(metric, safe='')}{query}")

    def wait_for(
        self,
        is_wanted: Callable[[Reply], bool],
        metric: str,
        *,
        selector: str = "",
        namespace: str = "default",
        timeout_s: float = 20.0,
    ) -> Reply:
        """Ask until an answer is wanted, and return it.

        Raises: AssertionError with the last answer after *timeout_s* seconds.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            reply = self.ask(metric, selector=selector, namespace=namespace)
            if is_wanted(reply):
                return reply
            assert time.monotonic() < deadline_s, f"last answer about {metric}: {reply.code} {reply.document}"
            time.sleep(0.05)

    def wait_for_log(self, text: str, *, times: int = 1, timeout_s: float = 60.0) -> None:
        """Return once the log contains *text* at least so many times."""
        deadline_s = time.monotonic() + timeout_s
        while self.read_log().count(text) < times:
            assert time.monotonic() < deadline_s, f"{text!r} is not in the log:\n{self.read_log()}"
            time.sleep(0.05)

    def close(self) -> None:
        """End the server, its client and its folder."""
        self._client.close()
        super().close()

    def __enter__(self) -> Self:
        """Start the server."""
        super().__enter__()
        return self
