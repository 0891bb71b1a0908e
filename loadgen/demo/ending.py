"""The orderly end that Ctrl-C, SIGTERM or a closed terminal asks for."""

import signal
import time
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.2


class Ending:
    """While its block lasts, the first signal raises KeyboardInterrupt; further ones don't disturb the clearing up.

    The interrupt alone would not do: one that comes between a check and a blocking call is noticed when that call
    ends, and one that comes within a finalizer is lost (Python: "Exception ignored in"). So `sleep` also looks for
    itself, and never blocks for long. A plain flag, because a lock can't be taken in a signal handler.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._before = {number: signal.getsignal(number) for number in SIGNALS}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, duration_s: float) -> None:
        """Return after *duration_s*.

        Raises: KeyboardInterrupt within a moment of being asked to end, or at once if that was before.
        """
        until_s = time.monotonic() + duration_s
        while True:
            if self.is_asked:
                raise KeyboardInterrupt
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(POLL_S, left_s))

    def ignore_further(self) -> None:
        """Let no signal disturb what follows, which takes seconds at most."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.is_asked = True
        self.ignore_further()
        raise KeyboardInterrupt
