"""Where provided parts are kept, and the lock that lets two commands fill that folder at once."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loadgen.parts.errors import PartUnavailable

Report = Callable[[str], None]
"""Takes one line of progress."""


def find_cache_folder(environ: Mapping[str, str], *, checkout: Path | None = None) -> Path:
    """Return the folder for provided parts, created and writable.

    `$XDG_CACHE_HOME/depthgauge`, else `$HOME/.cache/depthgauge`, else `build/cache` of the *checkout* where there is
    one: a home folder that is unset, empty or read-only is common for service users and in containers.

    Raises: PartUnavailable when none of them can be written.
    Source: XDG Base Directory Specification (a relative XDG_CACHE_HOME is to be ignored).
    """
    candidates = []
    if Path(environ.get("XDG_CACHE_HOME", "")).is_absolute():
        candidates.append(Path(environ["XDG_CACHE_HOME"]) / "depthgauge")
    if Path(environ.get("HOME", "")).is_absolute():
        candidates.append(Path(environ["HOME"]) / ".cache" / "depthgauge")
    if checkout is not None:
        candidates.append(checkout / "build" / "cache")
    for candidate in candidates:
        with contextlib.suppress(OSError):
            candidate.mkdir(parents=True, exist_ok=True)
            if os.access(candidate, os.W_OK | os.X_OK):
                return candidate
    raise PartUnavailable(
        part="cache folder",
        cause=f"cannot write any of: {', '.join(str(candidate) for candidate in candidates) or '(no HOME is set)'}",
        next_step="set XDG_CACHE_HOME to a folder that you may write",
    )


def find_checkout() -> Path | None:
    """Return the source checkout that this package is imported from, or None when it is an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


@contextlib.contextmanager
def hold_lock(path: Path, report: Report) -> Iterator[None]:
    """Hold the lock file *path* for the block; wait for another process that holds it, and say so.

    The kernel drops the lock when its holder ends, however it ends, so a crash leaves nothing to clean up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another command that holds {path}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
