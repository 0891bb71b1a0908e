"""The grid of instants at which queries are evaluated, and the answers kept until the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from adapter.clock import Clock
from adapter.errors import MetricError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TickGrid:
    """Instants that all replicas of the adapter agree on without talking: multiples of *resolution_s* since 1970."""

    def __init__(self, clock: Clock, resolution_s: float) -> None:
        self._clock = clock
        self._resolution_ms = max(1, round(resolution_s * 1000))

    def current_s(self) -> float:
        """Return the tick that now belongs to, in Unix seconds, exact to the millisecond."""
        now_ms = int(self._clock.now_s() * 1000)
        return (now_ms - now_ms % self._resolution_ms) / 1000


class TickCache(Generic[K, V]):
    """Single flight within a tick: one evaluation for each key, its answer *or its error* kept until the tick ends.

    An evaluation runs in a task of its own, so a caller that goes away takes nothing from the others.
    """

    def __init__(self, max_entries: int = 20_000) -> None:
        self._max_entries = max_entries
        self._tick_s = float("-inf")
        self._entries: dict[K, asyncio.Task[V | MetricError]] = {}
        self._running: set[asyncio.Task[V | MetricError]] = set()

    async def get(self, key: K, tick_s: float, evaluate: Callable[[], Awaitable[V]]) -> V:
        """Return what *evaluate* returned or raise what it raised, the first time that *key* was asked in this tick."""
        if tick_s != self._tick_s:
            self._tick_s = tick_s
            self._entries = {}
        task = self._entries.get(key)
        if task is None:
            if len(self._entries) >= self._max_entries:
                self._entries = {}
            task = asyncio.create_task(_capture(evaluate))
            self._entries[key] = task
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        outcome = task.result() if task.done() else await asyncio.shield(task)
        if isinstance(outcome, MetricError):
            # Raised once for each caller: without this, every raise would lengthen the same traceback.
            raise outcome.with_traceback(None)
        return outcome

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _capture(evaluate: Callable[[], Awaitable[V]]) -> V | MetricError:
    try:
        return await evaluate()
    except MetricError as error:
        return error
