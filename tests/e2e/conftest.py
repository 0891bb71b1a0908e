"""One real control plane for the tests of this folder; never skipped: what is missing is an error with the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.cluster import ControlPlane, find_programs
from loadgen.parts import PartUnavailable

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
