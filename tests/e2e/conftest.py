"""One real control plane for the tests of this folder; never skipped: what is missing is an error with the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.cluster import ControlPlane, find_programs
from loadgen.parts import PartUnavailable, find_part

LOGS = Path(__file__).resolve().parents[2] / "build" / "e2e" / "logs"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Run etcd, API server, controllers, scheduler and KWOK; HPAs are evaluated every 2 s. Logs: build/e2e/logs."""
    try:
        programs = find_programs()
    except PartUnavailable as exc:
        pytest.fail(str(exc), pytrace=False)
    with ControlPlane(programs, hpa_sync_period_s=2.0, keep_logs_in=LOGS, report=print) as running:
        yield running


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    """The Prometheus that adapters ask here."""
    found = find_part("prometheus")
    if found is None:
        pytest.fail("prometheus is missing, run: .venv/bin/python -m loadgen.parts ensure prometheus", pytrace=False)
    return found
