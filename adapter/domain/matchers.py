"""PromQL label matchers, and how a Kubernetes selector becomes them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from adapter.domain.selectors import Operator, Requirement

MatchOperator = Literal["=", "!=", "=~", "!~"]

_LEGACY_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RE2_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
# U+FFFD is what Go's decoder returns for broken UTF-8, so Prometheus' lexer refuses it where it stands unescaped.
_UNSAFE = re.compile(r'[\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]')
_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One PromQL label matcher; *value* is the plain text, not yet quoted."""

    label: str
    operator: MatchOperator
    value: str

    def __str__(self) -> str:
        label = self.label if is_label_name(self.label) else quote_string(self.label)
        return f"{label}{self.operator}{quote_string(self.value)}"


def is_label_name(text: str) -> bool:
    """Return whether every Prometheus takes *text* as a label name without quotes."""
    return _LEGACY_LABEL.fullmatch(text) is not None


def quote_string(text: str) -> str:
    """Return *text* as a double-quoted PromQL string literal.

    Source: Prometheus promql/parser/lex.go and util/strutil/quote.go: Go's escapes, and no raw newline.
    """
    return f'"{_UNSAFE.sub(_escape, text)}"'


def quote_regex(text: str) -> str:
    """Return an RE2 expression that matches exactly *text*."""
    return _RE2_META.sub(r"\\\g<0>", text)


def _escape(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


def format_matchers(matchers: Iterable[Matcher]) -> str:
    """Return the matchers as they stand between PromQL's braces: `a="1",b=~"x|y"`."""
    return ",".join(map(str, matchers))


def build_matchers(requirements: Iterable[Requirement]) -> tuple[Matcher, ...] | None:
    """Return matchers that select what *requirements* select, or None if no series can match.

    The keys are Prometheus labels already. Prometheus has no labels with an empty value: what Kubernetes tells apart
    (absent, and present but empty) is one thing there, so a requirement for an empty value selects nothing, and
    forbidding it forbids nothing.
    """
    matchers: list[Matcher] = []
    for requirement in requirements:
        values = tuple(value for value in requirement.values if value)
        label = requirement.key
        match requirement.operator:
            case Operator.EXISTS:
                matchers.append(Matcher(label, "!=", ""))
            case Operator.NOT_EXISTS:
                matchers.append(Matcher(label, "=", ""))
            case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.IN:
                if not values:
                    return None
                matchers.append(_one_or_regex(label, values, one="=", several="=~"))
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                if values:
                    matchers.append(_one_or_regex(label, values, one="!=", several="!~"))
    return tuple(matchers)


def _one_or_regex(label: str, values: tuple[str, ...], *, one: MatchOperator, several: MatchOperator) -> Matcher:
    if len(values) == 1:
        return Matcher(label, one, values[0])
    return Matcher(label, several, "|".join(map(quote_regex, values)))
