"""The grid of instants at which queries are evaluated, and the answers kept until the next one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from adapter.clock import Clock
from adapter.errors import BackendUnavailable, MetricError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_log = logging.getLogger(__name__)


class EvaluationFault(Exception):
    """A fault of our own during an evaluation, already logged; everyone who waited for it gets this one."""


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

    An evaluation runs in a task of its own, so a caller that goes away takes nothing from the others. *max_ticks* is
    how many ticks are kept, the last asked for: more than one where a caller may come back late with an old tick.
    """

    def __init__(self, max_entries: int = 20_000, *, max_ticks: int = 1) -> None:
        self._max_entries = max_entries
        self._max_ticks = max_ticks
        self._ticks: dict[float, dict[K, asyncio.Task[V | Exception]]] = {}
        self._running: set[asyncio.Task[V | Exception]] = set()

    async def get(self, key: K, tick_s: float, evaluate: Callable[[], Awaitable[V]]) -> V:
        """Return what *evaluate* returned or raise what it raised, the first time that *key* was asked in this tick.

        Raises: EvaluationFault where *evaluate* raised anything but a MetricError; BackendUnavailable where it was
                cancelled by `aclose`.
        """
        entries = self._ticks.get(tick_s)
        if entries is None:
            entries = self._ticks[tick_s] = {}
            if len(self._ticks) > self._max_ticks:
                del self._ticks[next(iter(self._ticks))]
        task = entries.get(key)
        if task is None:
            if len(entries) >= self._max_entries:
                entries.clear()
            task = entries[key] = asyncio.create_task(_capture(evaluate))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if not task.done():
            await asyncio.wait((task,))  # unlike `await task`, it is only the caller that a cancellation reaches
        if task.cancelled():
            raise BackendUnavailable(detail="the evaluation was given up: depthgauge is closing")
        outcome = task.result()
        if isinstance(outcome, Exception):
            # Raised once for each caller: without this, every raise would lengthen the same traceback.
            raise outcome.with_traceback(None)
        return outcome

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _capture(evaluate: Callable[[], Awaitable[V]]) -> V | Exception:
    try:
        return await evaluate()
    except MetricError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault of whatever kind must reach those who wait
        # Kept like any other outcome: it reaches everyone who waits, also if that is nobody any more.
        _log.exception("evaluation_failed")
        return EvaluationFault(f"{type(error).__name__} during an evaluation")
