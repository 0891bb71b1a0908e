"""Watches a configuration and loads it again when it changes; the last good one is kept by whoever has it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

from watchfiles import Change, awatch

from adapter.config.load import Loaded, load_sources
from adapter.config.problems import ConfigurationError, Problem
from adapter.config.sources import Sources, read_sources

POLL_EVERY_S: Final = 20.0
SETTLE_MS: Final = 200
"""How long the folder must be quiet: editors and the kubelet change several things for one new version."""

_log = logging.getLogger(__name__)


class ConfigurationWatcher:
    """Loads *path* again after each change of its content, a swapped `..data` link and a rename included.

    The folder is watched, not the file, because a file that is replaced is another file; and it is read every
    POLL_EVERY_S seconds too, because not every file system tells of changes.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_loaded: Callable[[Loaded], None],
        on_failed: Callable[[Sequence[Problem]], None],
    ) -> None:
        self._path = path
        self._on_loaded = on_loaded
        self._on_failed = on_failed
        self._fingerprint = read_sources(path).build_fingerprint()

    async def run(self) -> None:
        """Watch until cancelled."""
        async for _ in self._wake():
            sources = await asyncio.to_thread(read_sources, self._path)
            fingerprint = sources.build_fingerprint()
            if fingerprint != self._fingerprint:
                self._fingerprint = fingerprint
                await self._load(sources)

    async def _load(self, sources: Sources) -> None:
        try:
            loaded = await asyncio.to_thread(load_sources, sources)
        except ConfigurationError as error:
            for problem in error.problems:
                _log.error("config_problem %s", problem)
            self._on_failed(error.problems)
        else:
            self._on_loaded(loaded)

    async def _wake(self) -> AsyncIterator[None]:
        """Yield whenever there may be something new."""
        folder = self._path if self._path.is_dir() else self._path.parent
        while True:
            try:
                async for _ in awatch(
                    folder,
                    watch_filter=_ignore_access,
                    step=SETTLE_MS,
                    rust_timeout=int(POLL_EVERY_S * 1000),
                    yield_on_timeout=True,
                    recursive=False,
                ):
                    yield
            except OSError as error:  # the folder is gone, or cannot be watched: look at it now and then
                _log.warning("config_unwatched path=%s error=%s", folder, error)
                await asyncio.sleep(POLL_EVERY_S)
                yield


def _ignore_access(_change: Change, _path: str) -> bool:
    return True
