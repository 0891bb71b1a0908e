"""The only place that reads a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for ticks and timestamps, monotonic time for durations."""

    def now_s(self) -> float:
        """Return the wall time in Unix seconds."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards, from an arbitrary origin."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        """Return the wall time in Unix seconds."""
        return time.time()

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards, from an arbitrary origin."""
        return time.monotonic()
