"""The configuration in force: replaced by a reload while requests go on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from adapter.domain.answers import Answer
from adapter.domain.rules import Configuration
from adapter.serving.provider import Provider, Question

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Generation:
    """One loaded configuration at work; *aclose* is called once, after its last request has ended."""

    provider: Provider
    aclose: Callable[[], Awaitable[None]]
    in_flight: int = 0
    is_retired: bool = False


@dataclass(slots=True)
class LiveProvider:
    """Answers by the current generation; the one before finishes the requests that it has begun."""

    current: Generation
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def configuration(self) -> Configuration:
        """Return the configuration in force."""
        return self.current.provider.configuration

    async def fetch(self, question: Question) -> Answer:
        """Return the items that *question* selects; see `Provider.fetch`."""
        generation = self.current
        generation.in_flight += 1
        try:
            return await generation.provider.fetch(question)
        finally:
            generation.in_flight -= 1
            self._close_if_unused(generation)

    def replace(self, generation: Generation) -> None:
        """Put *generation* into force for every request from now on."""
        previous, self.current = self.current, generation
        previous.is_retired = True
        self._close_if_unused(previous)

    async def aclose(self) -> None:
        """Close the current generation and wait for those that are closing."""
        await _close(self.current)
        await asyncio.gather(*self._closing)

    def _close_if_unused(self, generation: Generation) -> None:
        if generation.is_retired and not generation.in_flight:
            task = asyncio.create_task(_close(generation))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(generation: Generation) -> None:
    try:
        await generation.aclose()
    except Exception:  # noqa: BLE001 - the configuration is replaced already; what remains open is only lost
        _log.exception("generation_close_failed")
