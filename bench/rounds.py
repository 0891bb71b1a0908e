"""Alternating measurements of two servers, and what they say of each other."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.load import Load, Measured


@dataclass(frozen=True, slots=True)
class Pair:
    """The adapter and the bare app, measured one right after the other."""

    adapter: Measured
    bare: Measured

    @property
    def ratio(self) -> float:
        """Return the adapter's throughput as a share of the bare app's."""
        return self.adapter.requests_per_s / self.bare.requests_per_s

    @property
    def cpu_ratio(self) -> float:
        """Return the bare app's CPU time for a request as a share of the adapter's."""
        return self.bare.cpu_ms_per_request / self.adapter.cpu_ms_per_request


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case's pairs; *adapter_rss_mb* in 10^6 bytes after them."""

    name: str
    pairs: Sequence[Pair]
    adapter_rss_mb: float
    bare_rss_mb: float
    queries: int
    ticks: int
    rules: int

    @property
    def ratio(self) -> float:
        """Return the median of the pairs' ratios."""
        return statistics.median(pair.ratio for pair in self.pairs)

    @property
    def cpu_ratio(self) -> float:
        """Return the median of the pairs' CPU ratios."""
        return statistics.median(pair.cpu_ratio for pair in self.pairs)

    def pick(self, side: str) -> list[Measured]:
        """Return the measurements of one *side*: `adapter` or `bare`."""
        return [getattr(pair, side) for pair in self.pairs]


def measure_pairs(adapter: Load, bare: Load, *, rounds: int) -> list[Pair]:
    """Measure A B, B A, A B, ...: what changes slowly on the machine then harms neither more than the other."""
    pairs = []
    for number in range(rounds):
        if number % 2 == 0:
            first = measure(adapter)
            pairs.append(Pair(first, measure(bare)))
        else:
            first = measure(bare)
            pairs.append(Pair(measure(adapter), first))
    return pairs


def measure(load: Load) -> Measured:
    """Run one load in a process of its own. Raises RuntimeError if it fails or gets an unwanted status."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60 + load.warm_up_s + load.measure_s,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator failed:\n{done.stderr}")
    measured = Measured(**json.loads(done.stdout))
    if measured.failures:
        raise RuntimeError(
            f"{measured.failures} of {measured.requests} answers were not {load.status}: {measured.first_failure}"
        )
    return measured
