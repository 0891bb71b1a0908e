"""What the queue really held, and how far behind it a number seen elsewhere is."""

import threading
import time
from collections import deque
from collections.abc import Callable
from decimal import Decimal

KEPT_S = 300.0


class DepthHistory:
    """Every depth that the queue had, with the time at which it began; older than *kept_s* is forgotten.

    **The lag of a number** is how long ago the queue last had exactly that depth: 0 if it has it now. Every change by
    a single message is recorded, so a number that was read from the queue, however late, is always found, and one
    that the queue never had is not. Where the depth went up and down over the same value the latest time counts, so
    the lag is then a lower bound; while it only rises or only falls the lag is exact.
    """

    def __init__(self, *, clock_s: Callable[[], float] = time.monotonic, kept_s: float = KEPT_S) -> None:
        self._clock_s = clock_s
        self._kept_s = kept_s
        self._changes: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def record(self, depth: int) -> None:
        """Note that the depth is *depth* from now on."""
        now_s = self._clock_s()
        with self._lock:
            self._changes.append((now_s, depth))
            # The depth before the window may last into it: it goes only when the next one began before the window.
            while len(self._changes) > 1 and self._changes[1][0] < now_s - self._kept_s:
                self._changes.popleft()

    def find_lag_s(self, value: Decimal) -> float | None:
        """Return how long ago the queue last had *value* messages, or None if it did not within the window."""
        now_s = self._clock_s()
        with self._lock:
            changes = tuple(self._changes)
        if changes and changes[-1][1] == value:
            return 0.0
        for (_, depth), (ended_s, _) in zip(reversed(changes[:-1]), reversed(changes[1:]), strict=True):
            if depth == value:
                return max(0.0, now_s - ended_s)
        return None
