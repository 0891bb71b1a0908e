"""A past for a Prometheus that has just been started: blocks written by promtool before its first start."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadgen.parts import find_part
from loadgen.parts.prometheus import Prometheus

STEP_S = 60
DEADLINE_S = 60.0


def backfill(server: Prometheus, series: Mapping[str, float], *, begin_s: float, end_s: float) -> None:
    """Give *server*, not started yet, a sample a minute of each of *series* from *begin_s* to *end_s* (Unix seconds).

    Both ends have one. *series* are selectors such as `depth{queue="a"}` with their constant value.
    """
    by_name: dict[str, list[str]] = {}
    for text, value in series.items():
        times = [*range(int(begin_s), int(end_s), STEP_S), int(end_s)]
        by_name.setdefault(text.partition("{")[0], []).extend(f"{text} {value:g} {time_s}" for time_s in times)
    lines = [line for name, samples in by_name.items() for line in (f"# TYPE {name} gauge", *samples)]
    source = server.folder / "past.om"
    source.write_text("\n".join([*lines, "# EOF", ""]))
    folders = (str(source), str(server.folder / "tsdb"))
    command = [str(_find_promtool()), "tsdb", "create-blocks-from", "openmetrics", *folders]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)


def _find_promtool() -> Path:
    prometheus = find_part("prometheus")
    assert prometheus is not None, "run: .venv/bin/python -m loadgen.parts ensure prometheus"
    return prometheus.resolve().with_name("promtool")
