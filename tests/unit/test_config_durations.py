"""Prometheus durations."""

import re

import pytest

from adapter.config.durations import DURATION_PATTERN, BadDuration, parse_duration_s

GOOD = {
    "0": 0.0,
    "0s": 0.0,
    "500ms": 0.5,
    "30s": 30.0,
    "1h30m": 5400.0,
    "1d": 86400.0,
    "1w2d": 777600.0,
    "1y": 31536000.0,
    "1m500ms": 60.5,
    "292y": 292 * 31536000.0,
}
BAD = [
    "",
    " ",
    "5",
    "5x",
    "-5s",
    "1.5h",
    "1m1h",
    "5m5m",
    "1h30",
    " 5m",
    "5m ",
    "5M",
    "1us",
    "293y",
    "9" * 70 + "s",
    "\u0665s",
]


@pytest.mark.parametrize(("text", "duration_s"), GOOD.items())
def test_duration_is_read_as_prometheus_does(text: str, duration_s: float) -> None:
    """Units from years to milliseconds, each at most once, largest first; and 0 without a unit."""
    assert parse_duration_s(text) == duration_s
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize("text", BAD)
def test_duration_is_refused(text: str) -> None:
    """Everything else, such as a number without a unit, is refused with an example."""
    with pytest.raises(BadDuration, match="such as 30s"):
        parse_duration_s(text)
