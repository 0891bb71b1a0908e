"""Go's regular expressions as far as prometheus-adapter's names need them: matching, and `$1` in what is made of it."""

import re
from collections.abc import Mapping
from typing import Final

_NOT_GO: Final = re.compile(r"\(\?(?:[=!>#(]|<[=!]|P[=>])|(?<!\\)(?:\\\\)*\\[1-9]|[*+?}]\+")
_REFERENCE: Final = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<bare>\w+))")
_POSIX: Final[Mapping[str, str]] = {
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:alnum:]": "A-Za-z0-9",
    "[:word:]": "A-Za-z0-9_",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
}


class BadPattern(ValueError):
    """The text is no regular expression that is read here; `str()` says why."""


class BadReference(ValueError):
    """A `$name` for which there is no group; `str()` is the name."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return *text* compiled. Raises BadPattern, also for what Go's syntax does not have (look-around)."""
    if construct := _NOT_GO.search(text):
        raise BadPattern(f"{construct[0]} is not in Go's syntax")
    for name, characters in _POSIX.items():
        text = text.replace(name, characters)
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise BadPattern(str(error)) from error


def has_reference(template: str) -> bool:
    """Tell whether *template* depends on what was matched."""
    return any(not reference["dollar"] for reference in _REFERENCE.finditer(template))


def expand_template(template: str, match: re.Match[str]) -> str:
    """Return *template* with `$1`, `${1}` and `$name` replaced by the groups of *match*.

    `$1_x` means the group named `1_x`, as in Go, which would put nothing there; here that raises BadReference.

    Source: Go, regexp.Regexp.Expand.
    """

    def replace(reference: re.Match[str]) -> str:
        if reference["dollar"]:
            return "$"
        name = reference["braced"] or reference["bare"]
        if name.isascii() and name.isdigit() and len(name) <= 4 and (name == "0" or name[0] != "0"):
            if int(name) > match.re.groups:
                raise BadReference(name)
            return match[int(name)] or ""
        if name not in match.re.groupindex:
            raise BadReference(name)
        return match[name] or ""

    return _REFERENCE.sub(replace, template)
