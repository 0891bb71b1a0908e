"""Settings for every test: how many examples a property is tried on."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support")

settings.register_profile("fast", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_collection_finish() -> None:
    """Take what was imported out of every later garbage collection: tests of tasks collect after each one."""
    gc.collect()
    gc.freeze()
