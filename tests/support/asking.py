"""Asks a backend from a synchronous test: one client, one event loop, both closed at the end.

The loop is uvloop's, as the product's is.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import uvloop

from adapter.clock import Clock
from adapter.domain.backends import BackendSettings
from adapter.domain.samples import QueryResult
from adapter.upstream.prometheus import PrometheusBackend

NOW_S = 1_700_000_000.0
Result = TypeVar("Result")


class Asker:
    """A `PrometheusBackend` in a loop of its own; a context manager."""

    def __init__(
        self,
        settings: BackendSettings,
        *,
        clock: Clock | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self.backend = PrometheusBackend(settings, clock=clock)

    def query(self, promql: str = "q", *, time_s: float = NOW_S, timeout_s: float = 5.0) -> QueryResult:
        """Return what the backend answers, or raise what its client raises."""
        return self._runner.run(self.backend.query(promql, time_s=time_s, timeout_s=timeout_s))

    def query_all(self, *promqls: str, timeout_s: float = 5.0) -> list[QueryResult]:
        """Ask all of *promqls* at once."""

        async def ask() -> list[QueryResult]:
            asked = (self.backend.query(promql, time_s=NOW_S, timeout_s=timeout_s) for promql in promqls)
            return list(await asyncio.gather(*asked))

        return self._runner.run(ask())

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run *coroutine* in the client's loop."""
        return self._runner.run(coroutine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._runner.run(self.backend.aclose())
        self._runner.close()
