"""The files of a configuration, as bytes: what is read is also what is compared to see a change."""

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapter.config.problems import Kind, Problem

FILE_LIMIT_BYTES: Final = 4 * 1024 * 1024

_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its content, or why there is none."""

    path: Path
    content: bytes = b""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sources:
    """All files of a configuration, by name; *problem* says why there are none."""

    path: Path
    files: Sequence[Source] = ()
    problem: str = ""

    def build_fingerprint(self) -> str:
        """Return a text that changes with any name or content."""
        digest = hashlib.sha256(self.problem.encode())
        for source in self.files:
            for part in (os.fsencode(source.path), source.content, source.problem.encode()):
                digest.update(b"%d:" % len(part) + part)
        return digest.hexdigest()

    def find_problems(self) -> list[Problem]:
        """Return what could not be read."""
        found = [(source.path, source.problem) for source in self.files if source.problem]
        if self.problem:
            found.append((self.path, self.problem))
        return [
            Problem(path=(), kind=Kind.UNREADABLE, detail=problem, file=str(path), line=1) for path, problem in found
        ]


def read_sources(path: Path) -> Sources:
    """Return the file *path*, or all `*.yaml` and `*.yml` of the directory *path* but those whose name has a first dot.

    Symbolic links are followed, as a mounted ConfigMap needs. Never raises: problems are part of the result.
    """
    try:
        if not path.is_dir():
            return Sources(path, (_read_source(path),))
        entries = sorted(
            entry for entry in path.iterdir() if entry.name.endswith(_SUFFIXES) and not entry.name.startswith(".")
        )
    except (OSError, ValueError) as error:
        return Sources(path, problem=_describe(error))
    files = tuple(_read_source(entry) for entry in entries if not entry.is_dir())
    if not files:
        return Sources(path, problem="the directory has no file that ends in .yaml or .yml")
    return Sources(path, files)


def _read_source(path: Path) -> Source:
    try:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return Source(path, problem="not a file")
            content = file.read(FILE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        return Source(path, problem=_describe(error))
    if len(content) > FILE_LIMIT_BYTES:
        return Source(path, problem=f"the file is larger than {FILE_LIMIT_BYTES // 1024 // 1024} MiB")
    return Source(path, content)


def _describe(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
