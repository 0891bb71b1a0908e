"""Doing something at given times, from a thread, without the doer's slowness changing the schedule (open loop)."""

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from loadgen.brokers.memory import MemoryQueue, Message


class Pacer:
    """Calls *act* with each of *times_s* once it is due; one that is late is done at once, none is left out.

    The times are seconds since *begin_s* on the monotonic clock. Leaving the block ends it.
    """

    def __init__(self, times_s: Iterator[float], act: Callable[[float], None], *, begin_s: float) -> None:
        self._times_s = times_s
        self._act = act
        self._begin_s = begin_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        for due_s in self._times_s:
            if self._ended.wait(max(0.0, self._begin_s + due_s - time.monotonic())):
                return
            self._act(due_s)


class Producer:
    """Puts numbered messages into a queue; made to be paced."""

    def __init__(self, queue: MemoryQueue, *, begin_s: float) -> None:
        self._queue = queue
        self._begin_s = begin_s
        self.sent = 0

    def send(self, scheduled_s: float) -> None:
        """Put the message that was due at *scheduled_s*."""
        sent_s = time.monotonic() - self._begin_s
        self._queue.put(Message(number=self.sent, scheduled_s=scheduled_s, sent_s=sent_s))
        self.sent += 1


class Consumer:
    """Takes one message each time it is called, where there is one; made to be paced."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue
        self.done = 0

    def work(self, _scheduled_s: float) -> None:
        """Take the oldest message."""
        if self._queue.take() is not None:
            self.done += 1
