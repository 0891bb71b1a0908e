"""The table, and the JSON of a run."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from bench.load import Measured
from bench.rounds import CaseResult

QUERIES_PER_RULE = 2
"""A tick's: the rule's own, and the one for its samples' freshness."""

QUERIES_PER_BACKEND = 1
"""A tick's: which targets are down."""

_BUSY_SHARE = 0.95

_HEADERS = ("case", "server", "req/s median", "min .. max", "CPU ms/req", "p50 ms", "p99 ms", "RSS MB", "generator")


def format_table(results: Sequence[CaseResult]) -> str:
    """Return the results as a person reads them."""
    rows: list[tuple[str, ...]] = [_HEADERS]
    for result in results:
        rows.append(_format_row(result.name, "depthgauge", result.pick("adapter"), result.adapter_rss_mb))
        rows.append(_format_row("", "bare ASGI", result.pick("bare"), result.bare_rss_mb))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    lines.append("")
    for result in results:
        ratios = [pair.ratio for pair in result.pairs]
        bound = (result.rules * QUERIES_PER_RULE + QUERIES_PER_BACKEND) * result.ticks
        lines.append(
            f"{result.name}: depthgauge/bare {result.ratio:.2f} of the throughput "
            f"({min(ratios):.2f} .. {max(ratios):.2f} over {len(ratios)} pairs), {result.cpu_ratio:.2f} by CPU time; "
            f"{result.queries} queries upstream, at most {bound} for {result.rules} rules and {result.ticks} ticks"
        )
    busy = [result.name for result in results if _find_generator_share(result) > _BUSY_SHARE]
    if busy:
        lines.append(f"the generator was busy all the time in: {', '.join(busy)}; go by the CPU times there")
    return "\n".join(lines)


def build_document(results: Sequence[CaseResult], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the results for a file."""
    cases = [asdict(result) | {"ratio": result.ratio, "cpu_ratio": result.cpu_ratio} for result in results]
    return {**facts, "cases": cases}


def _find_generator_share(result: CaseResult) -> float:
    return max(measured.own_cpu_s / measured.elapsed_s for measured in result.pick("adapter") + result.pick("bare"))


def _format_row(case: str, server: str, runs: Sequence[Measured], rss_mb: float) -> tuple[str, ...]:
    def median(read: Callable[[Measured], float]) -> float:
        return statistics.median(map(read, runs))

    rates = [run.requests_per_s for run in runs]
    return (
        case,
        server,
        f"{statistics.median(rates):.0f}",
        f"{min(rates):.0f} .. {max(rates):.0f}",
        f"{median(lambda run: run.cpu_ms_per_request):.4f}",
        f"{1000 * median(lambda run: run.p50_s):.2f}",
        f"{1000 * median(lambda run: run.p99_s):.2f}",
        f"{rss_mb:.0f}",
        f"{median(lambda run: run.own_cpu_s / run.elapsed_s):.0%} busy",
    )
