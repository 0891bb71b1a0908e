"""Watches a configuration and loads it again when it changes; the last good one is kept by whoever has it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from watchfiles import awatch

from adapter.clock import Clock, SystemClock
from adapter.config.load import Loaded, load_sources
from adapter.config.problems import ConfigurationError, Kind, Problem
from adapter.config.sources import Sources, read_sources

POLL_EVERY_S: Final = 20.0
"""How often the files are read though nothing told of a change."""

SETTLE_MS: Final = 200
"""How long the folder must be quiet: editors and the kubelet change several things for one new version."""

_GLANCE_EVERY_S: Final = 1.0
"""How often is looked whether the watched folders are still the same folders, which costs a stat each."""

_log = logging.getLogger(__name__)


class ConfigurationWatcher:
    """Loads *path* again after each change of its content, a swapped `..data` link and a rename included.

    The folder is watched, not the file, because a file that is replaced is another file; and the content is compared
    every *poll_every_s* seconds too, because not every file system tells of changes. *fingerprint* is that of the
    configuration in use (`Loaded.fingerprint`), so that no change between the two is missed; without it, what stands
    there now counts as in use.
    """

    def __init__(  # noqa: PLR0913 - all but the path are keywords
        self,
        path: Path,
        *,
        on_loaded: Callable[[Loaded], None],
        on_failed: Callable[[Sequence[Problem]], None],
        fingerprint: str = "",
        clock: Clock | None = None,
        poll_every_s: float = POLL_EVERY_S,
    ) -> None:
        self._path = path
        self._on_loaded = on_loaded
        self._on_failed = on_failed
        self._fingerprint = fingerprint or read_sources(path).build_fingerprint()
        self._clock = clock or SystemClock()
        self._poll_every_s = poll_every_s
        self._glance_every_s = min(_GLANCE_EVERY_S, poll_every_s)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with aclosing(self._wake()) as wakes:
            async for _ in wakes:
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
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the watching, nor pass for a good configuration
            _log.exception("config_load_crashed path=%s", self._path)
            detail = f"loading failed by a fault of depthgauge: {type(error).__name__}"
            self._on_failed((Problem((), Kind.UNREADABLE, detail, str(self._path), 1),))
        else:
            self._on_loaded(loaded)

    async def _wake(self) -> AsyncGenerator[None, None]:
        """Yield whenever there may be something new; soon after the start, and at least every *poll_every_s*."""
        looked_s = -self._poll_every_s
        while True:
            folders = self._find_folders()
            if not folders:
                yield
                await asyncio.sleep(self._glance_every_s)
                continue
            try:
                async with aclosing(self._watch(folders)) as glances:
                    async for has_changed in glances:
                        now_s = self._clock.monotonic_s()
                        if has_changed or now_s - looked_s >= self._poll_every_s:
                            looked_s = now_s
                            yield
                        if self._find_folders() != folders:
                            break
            except (OSError, RuntimeError) as error:  # the folder cannot be watched: look now and then
                _log.warning("config_unwatched path=%s error=%s poll_s=%g", self._path, error, self._poll_every_s)
                yield
                await asyncio.sleep(self._poll_every_s)
            looked_s = -self._poll_every_s

    async def _watch(self, folders: frozenset[tuple[Path, int, int]]) -> AsyncGenerator[bool, None]:
        """Yield whether something changed in *folders*, at least every glance; raises OSError, RuntimeError."""
        changes_seen = awatch(
            *(folder for folder, _, _ in folders),
            watch_filter=None,
            step=SETTLE_MS,
            rust_timeout=int(self._glance_every_s * 1000),
            yield_on_timeout=True,
            recursive=False,
        )
        async with aclosing(changes_seen):
            async for changes in changes_seen:
                yield bool(changes)

    def _find_folders(self) -> frozenset[tuple[Path, int, int]]:
        """Return the folders in which a change shows, each with what tells it from another folder of its name.

        They are the one that holds the file's name and the one that holds the file, where the name is a link.
        """
        found: set[tuple[Path, int, int]] = set()
        resolved = self._path.resolve()
        candidates = (self._path,) if self._path.is_dir() else (self._path.parent, resolved.parent)
        for folder in candidates:
            try:
                status = folder.stat()
            except OSError:
                continue
            found.add((folder, status.st_dev, status.st_ino))
        return frozenset(found)
