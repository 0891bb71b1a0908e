"""Starts the chain on loopback, looks at it, and stops it: queue, exporter, Prometheus, adapter."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from loadgen.arrivals import even_times_s, poisson_times_s
from loadgen.brokers.memory import DepthServer, MemoryQueue
from loadgen.demo.plan import METRIC, MISTYPED_METRIC, MISTYPED_SELECTOR, QUEUE, SELECTOR, PhaseName, Plan
from loadgen.exporter import METRIC as EXPORTED_METRIC
from loadgen.hops import Reading, build_metric_url, read_adapter, read_exporter, read_prometheus
from loadgen.pacing import Consumer, Pacer, Producer
from loadgen.parts.process import LOOPBACK
from loadgen.parts.prometheus import Prometheus, ScrapeJob
from loadgen.records import ChainSample, Look
from loadgen.servers import AdapterProcess, ExporterProcess
from loadgen.truth import DepthHistory

FIRST_NUMBER_DEADLINE_S = 30.0
POLL_S = 0.1
SERIES = f'{EXPORTED_METRIC}{{queue="{QUEUE}"}}'


class NoFirstNumber(Exception):
    """Everything runs, and still the adapter gives no number. *last* is what it says."""

    def __init__(self, last: Reading) -> None:
        super().__init__(f"no number from the adapter within {FIRST_NUMBER_DEADLINE_S:g} s; it says: {last.describe()}")
        self.last = last


def build_adapter_config(prometheus_url: str, plan: Plan) -> str:
    """Return the adapter's configuration, as a person would write it."""
    return (
        "# Written by scripts/demo for its last run.\n"
        "prometheus:\n"
        f"  url: {prometheus_url}\n"
        f"resolution: {plan.resolution_s:g}s\n"
        "metrics:\n"
        f"- name: {METRIC}\n"
        f"  query: sum by (queue) ({EXPORTED_METRIC})\n"
    )


class Chain:
    """The running chain. Entering the block starts it, part by part; leaving it stops all of it.

    Args:
        plan: rates and intervals.
        prometheus: the program.
        adapter: the program.
        folder: gets the adapter's configuration, `depthgauge.yaml`.
        adapter_port: where the adapter listens; None picks a free port.
        report: gets one line for each part that runs.
    """

    def __init__(  # noqa: PLR0913  # by keyword
        self,
        plan: Plan,
        *,
        prometheus: Path,
        adapter: Path,
        folder: Path,
        adapter_port: int | None,
        report: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._prometheus_binary = prometheus
        self._adapter_binary = adapter
        self._adapter_port = adapter_port
        self._report = report
        self._running = contextlib.ExitStack()
        self._begin_s = time.monotonic()
        self._history = DepthHistory()
        self._queue = MemoryQueue(QUEUE, on_depth=self._history.record)
        self.config_path = folder / "depthgauge.yaml"
        self.producer = Producer(self._queue, begin_s=self._begin_s)
        self.consumer = Consumer(self._queue)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as starting:
            self._start(starting)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._report("stopping everything")
        self._running.close()

    @property
    def queue(self) -> MemoryQueue:
        """The queue itself."""
        return self._queue

    def begin(self) -> None:
        """Let messages come and go from now on; `look` counts from here."""
        self._begin_s = time.monotonic()
        arrivals = poisson_times_s(self._plan.build_arrivals(), seed=self._plan.seed)
        services = even_times_s(self._plan.build_service())
        self._running.enter_context(Pacer(arrivals, self.producer.send, begin_s=self._begin_s))
        self._running.enter_context(Pacer(services, self.consumer.work, begin_s=self._begin_s))

    def elapsed_s(self) -> float:
        """Return the seconds since `begin`."""
        return time.monotonic() - self._begin_s

    def kill_exporter(self) -> None:
        """End the exporter as a crash would."""
        self.exporter.kill()

    def restart_exporter(self) -> None:
        """Start the exporter again where it was.

        Raises: ServerFailed.
        """
        self.exporter.start()

    def look(self, phase: PhaseName, *, phase_begin_s: float) -> ChainSample:
        """Ask every hop; in the phase of the typos, ask the adapter the mistyped questions too."""
        is_mistyped = phase is PhaseName.TYPO
        exporter = self._judge(read_exporter(f"{self.exporter.url}/metrics", EXPORTED_METRIC, {"queue": QUEUE}))
        prometheus = self._judge(read_prometheus(self.prometheus.url, SERIES))
        adapter = self._judge(read_adapter(self.build_url()))
        elapsed_s = self.elapsed_s()
        return ChainSample(
            phase=phase,
            elapsed_s=elapsed_s,
            phase_elapsed_s=elapsed_s - phase_begin_s,
            depth=self._queue.depth,
            exporter=exporter,
            prometheus=prometheus,
            adapter=adapter,
            mistyped_selector=read_adapter(self.build_url(selector=MISTYPED_SELECTOR)) if is_mistyped else None,
            mistyped_metric=read_adapter(self.build_url(metric=MISTYPED_METRIC)) if is_mistyped else None,
        )

    def build_url(self, *, metric: str = METRIC, selector: str = SELECTOR) -> str:
        """Return the address of a question to the adapter."""
        return build_metric_url(self.adapter.url, metric, selector=selector)

    def _judge(self, reading: Reading) -> Look:
        return Look(reading=reading, lag_s=None if reading.value is None else self._history.find_lag_s(reading.value))

    def _start(self, stack: contextlib.ExitStack) -> None:
        for _ in range(self._plan.first_depth):
            self.producer.send(0.0)
        depths = stack.enter_context(DepthServer(self._queue))
        self._report(f'queue "{QUEUE}": {self._queue.depth} messages, in memory')
        self.exporter = stack.enter_context(ExporterProcess(depths.url))
        self._report(f"exporter: {self.exporter.url}/metrics (process {self.exporter.pid})")
        job = ScrapeJob(name="queue-exporter", targets=(f"{LOOPBACK}:{self.exporter.port}",))
        self.prometheus = stack.enter_context(
            Prometheus(self._prometheus_binary, jobs=[job], scrape_interval_s=self._plan.scrape_interval_s)
        )
        self._report(f"Prometheus: {self.prometheus.url} (scrapes every {self._plan.scrape_interval_s:g} s)")
        self.config_path.write_text(build_adapter_config(self.prometheus.url, self._plan))
        self.adapter = stack.enter_context(
            AdapterProcess(self._adapter_binary, config=self.config_path, port=self._adapter_port)
        )
        self._report(f"adapter: {self.adapter.url} (configuration: {self.config_path})")
        self._report("waiting for the first number")
        self.prometheus.wait_for(SERIES, timeout_s=FIRST_NUMBER_DEADLINE_S)
        first = self._await_first_number()
        self._report(f"the adapter's first number: {first.describe()}")

    def _await_first_number(self) -> Reading:
        deadline_s = time.monotonic() + FIRST_NUMBER_DEADLINE_S
        while True:
            reading = read_adapter(self.build_url())
            if reading.value is not None:
                return reading
            if time.monotonic() > deadline_s:
                raise NoFirstNumber(reading)
            time.sleep(POLL_S)
