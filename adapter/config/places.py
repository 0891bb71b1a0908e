"""Where a piece of a configuration stands."""

from dataclasses import dataclass
from pathlib import Path

from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Note, Problem, format_value


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a document, and what is said about it."""

    path: KeyPath
    document: Document

    @property
    def origin(self) -> str:
        """Return `FILE:LINE`."""
        return f"{self.document.file}:{self.document.get_line(self.path)}"

    @property
    def folder(self) -> Path:
        """Return the folder of the file, from which relative paths in it are counted."""
        return Path(self.document.file).parent

    def problem(self, kind: Kind, detail: str, value: object = None, *, below: KeyPath = ()) -> Problem:
        """Return the problem of the bad *value* at *below*, or of a place without one."""
        path = self.path + below
        return Problem(
            path=path,
            kind=kind,
            detail=detail,
            value="" if value is None else format_value(path, value),
            file=self.document.file,
            line=self.document.get_line(path),
        )

    def note(self, detail: str, *, below: KeyPath = ()) -> Note:
        """Return a note on what stands at *below*."""
        path = self.path + below
        return Note(path=path, detail=detail, file=self.document.file, line=self.document.get_line(path))
