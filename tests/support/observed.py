"""An adapter that also says what it does: its self-metrics, over its operations port."""

import urllib.request
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from loadgen.parts.process import LOOPBACK, ServerProcess, find_free_port
from tests.support.adapter import AdapterServer

Labels = frozenset[tuple[str, str]]
"""The labels of one series."""


class ObservedAdapter(AdapterServer):
    """`depthgauge serve --dev-http --ops-listen`."""

    def __init__(self, config: Mapping[str, Any] | str) -> None:
        super().__init__(config)
        self._operations_port = find_free_port()

    def build_arguments(self, port: int) -> list[str]:
        """Return the command line of `depthgauge`."""
        return [*super().build_arguments(port), "--ops-listen", f"{LOOPBACK}:{self._operations_port}"]

    def read_metric(self, name: str) -> dict[Labels, float]:
        """Return the samples called *name* among the self-metrics, by their labels."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self._operations_port}/metrics", timeout=5) as answer:
            return parse_samples(answer.read().decode(), name)


def parse_samples(exposition: str, name: str) -> dict[Labels, float]:
    """Return the samples called *name* in a text exposition, by their labels."""
    return {
        frozenset(sample.labels.items()): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == name
    }


def count_queries(server: ServerProcess) -> float:
    """Return how many instant queries have reached a Prometheus, by its own count."""
    counts = parse_samples(server.request("/metrics").decode(), "prometheus_http_requests_total")
    return sum(count for labels, count in counts.items() if ("handler", "/api/v1/query") in labels)
