"""The exporter: a process of its own that asks the queue for its depth at every scrape."""

import json
import signal
import urllib.request
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

METRIC = "myapp_queue_length"
QUEUE_DEADLINE_S = 2.0


class DepthCollector(Collector):
    """Reads the depth anew for every scrape; a queue that can't be asked fails the scrape, never gives a number."""

    def __init__(self, queue_url: str) -> None:
        self._queue_url = queue_url
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the one gauge.

        Raises: OSError, ValueError, KeyError where the queue gives no depth; the scrape is answered with 500 then.
        """
        with self._opener.open(self._queue_url, timeout=QUEUE_DEADLINE_S) as answer:
            said = json.load(answer)
        gauge = GaugeMetricFamily(METRIC, "Messages that wait in the queue.", labels=["queue"])
        gauge.add_metric([str(said["queue"])], int(said["depth"]))
        yield gauge

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is served, without asking the queue: registering must not depend on it."""
        yield GaugeMetricFamily(METRIC, "Messages that wait in the queue.", labels=["queue"])


def run_exporter(queue_url: str, *, host: str, port: int) -> None:
    """Serve the depth at `http://HOST:PORT/metrics` until SIGTERM or SIGINT."""
    registry = CollectorRegistry()
    registry.register(DepthCollector(queue_url))
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads: they inherit it, and sigwait needs it
    server, thread = start_http_server(port, addr=host, registry=registry)
    signal.sigwait(ends)
    server.shutdown()
    thread.join()
