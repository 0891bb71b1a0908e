"""Keys that are checked but not served yet: a guard that silently does nothing would be worse than none."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from adapter.config.durations import parse_duration_s
from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Problem, quote_value
from adapter.config.schema import MetricKeys


def _is_on(duration: str) -> bool:
    return parse_duration_s(duration) > 0


_IS_ASKED_FOR: Final[Mapping[tuple[str, ...], Callable[[Any], bool]]] = {
    ("empty",): lambda empty: empty != "error",
    ("hold",): _is_on,
    ("guards", "maxAge"): _is_on,
    ("guards", "freshness"): bool,
    ("guards", "lostTargets"): _is_on,
    ("guards", "tolerateLost"): lambda tolerate: tolerate != "none",
    ("guards", "minSeries"): lambda least: least > 0,
    ("guards", "require"): bool,
}


def find_unserved(keys: MetricKeys, path: KeyPath, document: Document) -> Iterator[Problem]:
    """Yield a problem for each key of the metric at *path* that asks for what is not served yet."""
    written = keys.model_dump(by_alias=True, exclude_unset=True)
    for place, is_asked_for in _IS_ASKED_FOR.items():
        value: Any = written
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and is_asked_for(value):
            yield Problem(
                path=path + place,
                kind=Kind.UNSUPPORTED,
                value=quote_value(value),
                detail="this guard is not served yet",
                file=document.file,
                line=document.get_line(path + place),
            )
