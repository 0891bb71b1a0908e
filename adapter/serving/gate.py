"""Places at a backend: how many queries run at once, and how many wait."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from adapter.errors import DeadlineExceeded, MetricError, Overloaded

WAITING_PER_PLACE = 4


@dataclass(eq=False, slots=True)
class _Waiter:
    rule: str
    admitted: asyncio.Future[None]


class Gate:
    """Admits at most *places* queries at once, in the order they came; four times as many may wait.

    One rule gets three quarters of either at most: a rule whose queries are all slow leaves room for the others.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._places_per_rule = max(1, places * 3 // 4)
        self._max_waiting = WAITING_PER_PLACE * places
        self._max_waiting_per_rule = self._max_waiting * 3 // 4
        self._held: Counter[str] = Counter()
        self._waiters: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        """Return how many queries wait for a place."""
        return len(self._waiters)

    @asynccontextmanager
    async def place(self, rule: str, *, timeout_s: float) -> AsyncIterator[None]:
        """Hold a place for a query of *rule*.

        Raises: Overloaded at once if too many wait already; DeadlineExceeded after *timeout_s* seconds of waiting.
        """
        await self._enter(rule, timeout_s)
        try:
            yield
        finally:
            self._leave(rule)

    def fail_waiting(self, error: MetricError) -> None:
        """Turn away everyone who waits, with *error*."""
        for waiter in self._waiters:
            if not waiter.admitted.done():
                waiter.admitted.set_exception(error.with_traceback(None))
        self._waiters.clear()

    async def _enter(self, rule: str, timeout_s: float) -> None:
        if self._has_room_for(rule):
            self._held[rule] += 1
            return
        waiting_of_rule = sum(waiter.rule == rule for waiter in self._waiters)
        if len(self._waiters) >= self._max_waiting or waiting_of_rule >= self._max_waiting_per_rule:
            raise Overloaded(waiting=len(self._waiters), places=self._places)
        waiter = _Waiter(rule, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.admitted
        except TimeoutError:
            self._forget(waiter)
            detail = f"all of the time went into waiting for one of {self._places} places (maxConcurrency)"
            raise DeadlineExceeded(deadline_s=timeout_s, detail=detail) from None
        except asyncio.CancelledError:
            self._forget(waiter)
            raise

    def _forget(self, waiter: _Waiter) -> None:
        """Take back what *waiter* may have got in the very moment in which it gave up."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter.admitted.done() and not waiter.admitted.cancelled() and waiter.admitted.exception() is None:
            self._leave(waiter.rule)

    def _leave(self, rule: str) -> None:
        self._held[rule] -= 1
        if not self._held[rule]:
            del self._held[rule]
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        for waiter in tuple(self._waiters):
            if self._held.total() >= self._places:
                return
            if not waiter.admitted.done() and self._has_room_for(waiter.rule):
                self._waiters.remove(waiter)
                self._held[waiter.rule] += 1
                waiter.admitted.set_result(None)

    def _has_room_for(self, rule: str) -> bool:
        return self._held.total() < self._places and self._held[rule] < self._places_per_rule
