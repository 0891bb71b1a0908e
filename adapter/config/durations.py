"""Prometheus durations: `1h30m`, `500ms`, `0s`, `0`.

promql-parser's own is not used: it refuses zero, which switches a guard off here, and takes a bare `5` for seconds,
where Prometheus and a reader see a forgotten unit.
"""

import re
from typing import Final

DURATION_PATTERN: Final = r"^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$"
"""As a JSON Schema writes it; the empty text, which it would match, is refused by `minLength`."""

_DURATION: Final = re.compile(
    r"0|(?:(?P<y>[0-9]+)y)?(?:(?P<w>[0-9]+)w)?(?:(?P<d>[0-9]+)d)?(?:(?P<h>[0-9]+)h)?"
    r"(?:(?P<m>[0-9]+)m)?(?:(?P<s>[0-9]+)s)?(?:(?P<ms>[0-9]+)ms)?"
)
_UNITS_MS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_LIMIT_CHARS: Final = 64
_LIMIT_MS: Final = (2**63 - 1) // 1_000_000


class BadDuration(ValueError):
    """The text is no duration; `str()` says what is expected."""


def parse_duration_s(text: str) -> float:
    """Return the seconds of *text*.

    Raises: BadDuration, also above what Prometheus can hold (about 292 years).
    Source: Prometheus, model.ParseDuration of common/model/time.go.
    """
    match = _DURATION.fullmatch(text) if 0 < len(text) <= _LIMIT_CHARS else None
    if match is None:
        raise BadDuration("expected a duration such as 30s")
    total_ms = sum(int(match[unit] or 0) * size_ms for unit, size_ms in _UNITS_MS.items())
    if total_ms > _LIMIT_MS:
        raise BadDuration("longer than 292 years; expected a duration such as 30s")
    return total_ms / 1000
