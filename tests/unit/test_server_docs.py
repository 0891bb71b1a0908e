"""docs/server.md names every self-metric, log event and flag that there is, and no other metric."""

import re
from pathlib import Path

import pytest

from adapter.domain.rules import Configuration
from adapter.observe import SelfMetrics
from tests.support.serving import ManualClock, rule

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "server.md").read_text()


def test_table_of_metrics_is_the_expositions() -> None:
    """Names and types, as somebody who writes an alert reads them."""
    metrics = SelfMetrics(ManualClock())
    metrics.note_loaded(Configuration(backends={}, rules={"depth": rule("q")}))
    text = metrics.render()[0].decode()
    served = {
        (name, kind)
        for name, kind in re.findall(r"^# TYPE (depthgauge_\w+) (\w+)$", text, re.MULTILINE)
        if not name.endswith("_created")
    }
    written = set(re.findall(r"^\| `(depthgauge_\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert written == served


@pytest.mark.parametrize("path", sorted((ROOT / "adapter").rglob("*.py")), ids=lambda path: path.stem)
def test_every_log_event_is_described(path: Path) -> None:
    """Whoever finds a line in a log finds what it means."""
    events = re.findall(r'_log\.(?:info|warning|error|exception)\(\s*"(\w+)', path.read_text())
    assert [event for event in events if f"`{event}`" not in PAGE] == []


def test_every_flag_is_described() -> None:
    """Those of `depthgauge serve`."""
    flags = re.findall(r"^    (\w+): Annotated", (ROOT / "adapter/cli/serve.py").read_text(), re.MULTILINE)
    assert len(flags) > 8
    assert [flag for flag in flags if f"`--{flag.replace('_', '-')}" not in PAGE] == []
