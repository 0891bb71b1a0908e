"""What is wrong with a configuration: findings, apart from how they are printed.

A problem stops a configuration from being used; a note does not.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KeyPath = tuple[str | int, ...]
"""Where a value stands in its document: keys and list indexes, outermost first."""

VALUE_LIMIT_CHARS: Final = 80

_SECRET_KEYS: Final = frozenset({"headers", "params", "basicAuth", "bearerTokenFile", "url"})
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Kind(StrEnum):
    """What sort of problem it is; the text is the one that is printed."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    DUPLICATE = "Duplicate value"
    UNSUPPORTED = "Unsupported value"
    UNKNOWN_KEY = "Unknown key"
    SYNTAX = "Not readable as YAML"
    UNREADABLE = "Not readable"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. *path* is empty for the file as a whole; *line* counts from 1.

    *value* is the bad value as it is printed, or empty where there is none or where it may be a secret.
    """

    path: KeyPath
    kind: Kind
    detail: str
    file: str
    line: int
    value: str = ""

    def __str__(self) -> str:
        where = f"{format_path(self.path)}: " if self.path else ""
        value = f" {self.value}" if self.value else ""
        return f"{self.file}:{self.line}: {where}{self.kind}{value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that does not stop the configuration from being used."""

    path: KeyPath
    detail: str
    file: str
    line: int

    def __str__(self) -> str:
        where = f"{format_path(self.path)}: " if self.path else ""
        return f"{self.file}:{self.line}: {where}{self.detail}"


class ConfigurationError(Exception):
    """The configuration cannot be used. *problems* are all of them, by file and line; `str()` is one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(
            sorted(problems, key=lambda problem: (problem.file, problem.line, format_path(problem.path), problem.kind))
        )
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def format_path(path: KeyPath) -> str:
    """Return *path* as a person writes it: `metrics[3].labels["app.kubernetes.io/name"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{quote_value(part)}]"
    return text


def format_value(path: KeyPath, value: object) -> str:
    """Return the bad *value* at *path* as it is printed: JSON, cut; empty where it may hold a credential."""
    if _SECRET_KEYS.intersection(part for part in path if isinstance(part, str)):
        return ""
    return quote_value(value)


def quote_value(value: object) -> str:
    """Return *value* as JSON on one line, in at most VALUE_LIMIT_CHARS characters."""
    if isinstance(value, str) and len(value) > VALUE_LIMIT_CHARS:
        value = value[: VALUE_LIMIT_CHARS - 1] + "…"
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= VALUE_LIMIT_CHARS + 2 else text[: VALUE_LIMIT_CHARS + 1] + "…"


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *word* was probably meant to be."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word[:VALUE_LIMIT_CHARS].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None
