"""Answers of the cluster, kept for a while: each question is asked once, however many requests wait for it."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from adapter.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

STANDS_S = 10.0
"""How long an answer stands, as in the generic API server."""

_LIMIT = 10_000


class ReviewObserver(Protocol):
    """What wants to know of reviews."""

    def note_review(self, kind: str, *, is_hit: bool) -> None:
        """Take one question of this *kind*, answered from memory or by the cluster."""
        ...


class ReviewCache(Generic[K, V]):
    """Keeps what `ask` returns for STANDS_S seconds; what it raises reaches all who wait and is not kept."""

    def __init__(self, kind: str, clock: Clock, observer: ReviewObserver | None = None) -> None:
        self._kind = kind
        self._clock = clock
        self._observer = observer
        self._kept: dict[K, tuple[V, float]] = {}
        self._asking: dict[K, asyncio.Task[V]] = {}

    def find(self, key: K) -> tuple[V] | None:
        """Return the answer for *key* in a tuple of its own if it is kept, without waiting; else None."""
        kept = self._kept.get(key)
        if kept is None or self._clock.monotonic_s() >= kept[1]:
            return None
        if self._observer is not None:
            self._observer.note_review(self._kind, is_hit=True)
        return kept[:1]

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer for *key*."""
        kept = self.find(key)
        if kept is not None:
            return kept[0]
        if self._observer is not None:
            self._observer.note_review(self._kind, is_hit=False)
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, ask))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        answer = await ask()
        if len(self._kept) >= _LIMIT:
            self._kept.clear()
        self._kept[key] = (answer, self._clock.monotonic_s() + STANDS_S)
        return answer

    def _forget(self, key: K, task: asyncio.Task[V]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # everyone who waited may have gone: the error is not lost, it is nobody's
