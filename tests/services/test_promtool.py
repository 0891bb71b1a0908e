"""Prometheus' own linter has nothing against the self-metrics."""

import subprocess

from adapter.domain.rules import Configuration
from adapter.errors import Reason
from adapter.observe import SelfMetrics
from loadgen.parts import find_part
from tests.support.serving import NOW_S, ManualClock, rule


def test_metrics_are_good_style_to_promtool() -> None:
    """Every family, after one event of each kind."""
    metrics = SelfMetrics(ManualClock())
    metrics.note_loaded(Configuration(backends={}, rules={"depth": rule("q")}))
    metrics.note_load_failed()
    metrics.note_request("depth", Reason.STALE, 0.01)
    metrics.watch_in_flight(lambda: 1)
    metrics.note_query("default", "OK", 0.01)
    metrics.note_evaluation("depth", tick_s=NOW_S, series=1)
    metrics.note_review("access", is_hit=True)
    promtool = find_part("prometheus").resolve().with_name("promtool")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.render()[0], capture_output=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")
