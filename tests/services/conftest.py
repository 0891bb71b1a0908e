"""The real servers for the tests of this folder: never skipped; missing is an error with the command to run."""

from pathlib import Path

import pytest

from loadgen.parts import find_part


def _require_part(name: str) -> Path:
    found = find_part(name)
    if found is None:
        pytest.fail(f"{name} is missing; run: .venv/bin/python -m loadgen.parts ensure {name}", pytrace=False)
    return found


@pytest.fixture(scope="session")
def prometheus2_binary() -> Path:
    """The program of a Prometheus 2.x."""
    return _require_part("prometheus")


@pytest.fixture(scope="session")
def prometheus3_binary() -> Path:
    """The program of a Prometheus 3.x."""
    return _require_part("prometheus3")


@pytest.fixture(scope="session")
def victoria_binary() -> Path:
    """The program of a VictoriaMetrics."""
    return _require_part("victoria-metrics")
