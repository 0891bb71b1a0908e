"""The one place that constructs: from a loaded configuration to something that answers."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from adapter.clock import Clock, SystemClock
from adapter.domain.backends import BackendSettings
from adapter.domain.rules import Configuration
from adapter.observe import ObservedBackend, SelfMetrics
from adapter.serving.breaker import Breaker
from adapter.serving.live import Generation
from adapter.serving.ports import Backend
from adapter.serving.provider import Provider
from adapter.serving.ticks import TickGrid
from adapter.upstream.prometheus import PrometheusBackend


@dataclass(slots=True)
class _OpenBackend:
    settings: BackendSettings
    breaker: Breaker
    users: int = 0


class Backends:
    """The open connections to backends, shared by successive configurations that say the same of a backend.

    So a reload of the rules neither reconnects nor forgets that a backend is down.
    """

    def __init__(self, clock: Clock, metrics: SelfMetrics | None = None) -> None:
        self._clock = clock
        self._metrics = metrics
        self._open: list[_OpenBackend] = []

    def acquire(self, wanted: Mapping[str, BackendSettings]) -> list[_OpenBackend]:
        """Return an open backend for each of *wanted*, to be given back with `release`."""
        acquired = [self._find(settings) or self._connect(settings) for settings in wanted.values()]
        for backend in acquired:
            backend.users += 1
            backend.breaker.forget_rests()
        return acquired

    async def release(self, backends: list[_OpenBackend]) -> None:
        """Close those of *backends* that nobody else uses."""
        for backend in backends:
            backend.users -= 1
        unused = [backend for backend in backends if not backend.users]
        self._open = [backend for backend in self._open if backend.users]
        await asyncio.gather(*(backend.breaker.aclose() for backend in unused))

    def _find(self, settings: BackendSettings) -> _OpenBackend | None:
        return next((backend for backend in self._open if backend.settings == settings), None)

    def _connect(self, settings: BackendSettings) -> _OpenBackend:
        client: Backend = PrometheusBackend(settings, clock=self._clock)
        if self._metrics is not None:
            client = ObservedBackend(client, self._metrics)
        breaker = Breaker(client, self._clock, timeout_s=settings.timeout_s, places=settings.max_concurrency)
        backend = _OpenBackend(settings, breaker)
        self._open.append(backend)
        return backend


class Factory:
    """Builds the generations of one process; its clock is the only one."""

    def __init__(self, clock: Clock | None = None, metrics: SelfMetrics | None = None) -> None:
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._backends = Backends(self._clock, metrics)

    def build_generation(self, configuration: Configuration) -> Generation:
        """Return *configuration* at work. It needs a running event loop, and connects to nothing until it is asked."""
        acquired = self._backends.acquire(configuration.backends)
        provider = Provider(
            configuration,
            breakers={backend.settings.name: backend.breaker for backend in acquired},
            grid=TickGrid(self._clock, configuration.resolution_s),
            observer=self._metrics,
        )

        async def aclose() -> None:
            await provider.aclose()
            await self._backends.release(acquired)

        return Generation(provider=provider, aclose=aclose)
