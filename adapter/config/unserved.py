"""Keys that are checked but not served yet: a guard that silently does nothing would be worse than none."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from adapter.config.durations import BadDuration, parse_duration_s
from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Problem, quote_value


def _is_on(duration: object) -> bool:
    try:
        return isinstance(duration, str) and parse_duration_s(duration) > 0
    except BadDuration:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_IS_ASKED_FOR: Final[Mapping[tuple[str, ...], Callable[[Any], bool]]] = {
    ("empty",): lambda empty: isinstance(empty, dict) and _is_text(empty.get("zeroWhile")),
    ("hold",): _is_on,
    ("guards", "maxAge"): _is_on,
    ("guards", "freshness"): _is_text,
    ("guards", "lostTargets"): _is_on,
    ("guards", "tolerateLost"): lambda tolerate: tolerate == "any",
    ("guards", "minSeries"): lambda least: type(least) is int and least > 0,
    ("guards", "require"): _is_text,
}


def find_unserved(metric: Mapping[str, Any], path: KeyPath, document: Document) -> Iterator[Problem]:
    """Yield a problem for each key of the *metric* at *path* that asks for what is not served yet.

    The values need not have been checked: what is no valid way to ask is left to the checks of each key.
    """
    for place, is_asked_for in _IS_ASKED_FOR.items():
        value: Any = metric
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if is_asked_for(value):
            yield Problem(
                path=path + place,
                kind=Kind.UNSUPPORTED,
                value=quote_value(value),
                detail="this guard is not served yet",
                file=document.file,
                line=document.get_line(path + place),
            )
