"""Kubernetes label selectors: the grammar of `labels.Parse` (k8s.io/apimachinery), and what they match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Final, NoReturn

from adapter.errors import BadSelector

NAME_LIMIT_CHARS: Final = 63
"""Characters of a label value, and of a label key's name part."""

PREFIX_LIMIT_CHARS: Final = 253
"""Characters of a label key's DNS prefix."""

_INT64_MAX: Final = 2**63 - 1

_TOKEN: Final = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_QUOTES: Final = ("'", '"', "`")
_END: Final = ""
_NOT: Final = "!"
_CLOSE: Final = ")"


class Operator(StrEnum):
    """How a requirement relates a label to its values; the text is the selector's own."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"


_OPERATORS: Final[Mapping[str, Operator]] = {
    operator.value: operator
    for operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS, Operator.IN, Operator.NOT_IN)
}
# Every series of a result passes through Requirement.matches: module names are half the price of an enum's attributes.
_EXISTS: Final = Operator.EXISTS
_NOT_EXISTS: Final = Operator.NOT_EXISTS
_NOT_EQUALS: Final = Operator.NOT_EQUALS
_NOT_IN: Final = Operator.NOT_IN

_NEEDS_LABEL: Final = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN, Operator.EXISTS})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector. *values* are sorted and distinct; none for `key` and `!key`, else at least one."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* satisfy this term; `!=`, `notin` and `!key` are satisfied by an absent label."""
        value = labels.get(self.key)
        operator = self.operator
        if operator is _EXISTS:
            return value is not None
        if operator is _NOT_EXISTS:
            return value is None
        if operator is _NOT_EQUALS or operator is _NOT_IN:
            return value is None or value not in self.values
        return value is not None and value in self.values

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.NOT_EXISTS:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """The conjunction of its requirements, sorted by key. `str()` is canonical, as Kubernetes prints it."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether the selector restricts nothing."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* satisfy every requirement."""
        for requirement in self.requirements:  # noqa: SIM110 - all() costs a generator for each series
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def needs_label(requirement: Requirement) -> bool:
    """Tell whether only series that have the label can match: for `=`, `==`, `in` and `key`."""
    return requirement.operator in _NEEDS_LABEL


def parse_selector(text: str) -> Selector:
    """Return the Selector that *text* spells; empty or blank text selects everything.

    Takes time proportional to the length of *text*. Two things that Kubernetes' own parser accepts are refused: `>`
    and `<`, which have no answer here, and the NUL character, at which that parser silently drops what follows.

    Raises: BadSelector.
    Source: k8s.io/apimachinery v0.36.3, pkg/labels/selector.go and pkg/api/validate/content.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the tokens of one text. A token is its own text; the end is the empty string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._matches = list(_TOKEN.finditer(text))
        self._tokens = [match[0] for match in self._matches]
        self._tokens.append(_END)
        self._next = 0
        self._comparison = ""

    def parse(self) -> Selector:
        if "\0" in self._text:
            self._refuse(f"at character {self._text.index(chr(0)) + 1}: a NUL character is not allowed")
        requirements: list[Requirement] = []
        if self._tokens[0] != _END:
            requirements.append(self._requirement('a label key or "!"'))
            while self._tokens[self._next] != _END:
                self._expect(",", '"," or the end')
                requirements.append(self._requirement('a label key or "!" after ","'))
        if self._comparison:
            self._refuse(self._comparison)
        requirements.sort(key=attrgetter("key"))
        return Selector(tuple(requirements))

    def _requirement(self, expected: str) -> Requirement:
        token = self._take()
        is_negated = token == _NOT
        if is_negated:
            token = self._take()
            expected = 'a label key after "!"'
        if token == _END or token in _SYMBOLS:
            self._unexpected(expected)
        key = token
        if problem := _find_key_problem(key):
            self._refuse(f"label key {_quote(key)} {problem}")
        if is_negated:
            return Requirement(key, Operator.NOT_EXISTS)
        if self._tokens[self._next] in (_END, ","):
            return Requirement(key, Operator.EXISTS)
        operator_text = self._take()
        if operator_text in (">", "<"):
            return self._comparison_requirement(key, operator_text)
        operator = _OPERATORS.get(operator_text)
        if operator is None:
            self._unexpected('one of = == != in notin after the key (or "," or the end)')
        values = self._value_set() if operator in (Operator.IN, Operator.NOT_IN) else (self._value(),)
        for value in values:
            if problem := _find_value_problem(value):
                self._refuse(f"label value {_quote(value)} of {_quote(key)} {problem}")
        return Requirement(key, operator, values)

    def _comparison_requirement(self, key: str, operator: str) -> Requirement:
        """Check `key>1` as Kubernetes does; the refusal waits until the rest is known to be well-formed."""
        value = self._value()
        if problem := _find_value_problem(value) or _find_integer_problem(value):
            self._refuse(f"label value {_quote(value)} of {_quote(key)} {problem}")
        name = "greater than" if operator == ">" else "less than"
        self._comparison = self._comparison or (
            f'the operator "{operator}" ({name}) on label {_quote(key)} is not supported for external metrics'
        )
        return Requirement(key, Operator.EXISTS)

    def _value(self) -> str:
        """Take the one value after `=`; nothing there, or a comma, means the empty value."""
        if self._tokens[self._next] in (_END, ","):
            return ""
        token = self._take()
        if token in _SYMBOLS:
            self._unexpected("a label value")
        return token

    def _value_set(self) -> tuple[str, ...]:
        """Take `(a,b)`: an empty place among the commas is the empty value, and so are empty parentheses."""
        self._expect("(", '"(" before the values')
        values: set[str] = set()
        is_after_value = False
        while True:
            token = self._take()
            if token in (",", _CLOSE):
                if not is_after_value:
                    values.add("")
                is_after_value = False
                if token == _CLOSE:
                    return tuple(sorted(values))
            elif is_after_value or token == _END or token in _SYMBOLS:
                self._unexpected('"," or ")"' if is_after_value else 'a label value, "," or ")"')
            else:
                values.add(token)
                is_after_value = True

    def _take(self) -> str:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _expect(self, symbol: str, expected: str) -> None:
        if self._take() != symbol:
            self._unexpected(expected)

    def _unexpected(self, expected: str) -> NoReturn:
        """Refuse the token taken last."""
        index = self._next - 1
        if index == len(self._matches):
            self._refuse(f"at the end: expected {expected}")
        found = self._matches[index]
        self._refuse(f"at character {found.start() + 1}: expected {expected}, found {_quote(found[0])}")

    def _refuse(self, detail: str) -> NoReturn:
        raise BadSelector(selector=self._text, detail=detail)


def _find_key_problem(key: str) -> str:
    """Return what is wrong with a label key, `[DNS subdomain/]name`; nothing for a valid one."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        if not prefix:
            return 'has nothing before the "/"'
        if len(prefix) > PREFIX_LIMIT_CHARS:
            return f"has a prefix of {len(prefix)} characters, more than {PREFIX_LIMIT_CHARS}"
        if not all(map(_DNS_LABEL.fullmatch, prefix.split("."))):
            return "has a prefix that is not a lower-case DNS name such as example.com"
        if not name:
            return 'has nothing after the "/"'
    return _find_name_problem(name)


def _find_value_problem(value: str) -> str:
    """Return what is wrong with a label value; nothing for a valid one, such as the empty one."""
    return _find_name_problem(value) if value else ""


def _find_name_problem(name: str) -> str:
    if len(name) > NAME_LIMIT_CHARS:
        return f"has {len(name)} characters where Kubernetes allows {NAME_LIMIT_CHARS}"
    if _NAME.fullmatch(name):
        return ""
    if name.startswith(_QUOTES):
        return "is quoted; selectors take names and values without quotes"
    return 'may hold only letters, digits, "-", "_" and ".", and must start and end with a letter or digit'


def _find_integer_problem(value: str) -> str:
    if value.isascii() and value.isdigit() and int(value) <= _INT64_MAX:
        return ""
    return "must be a 64-bit integer after > or <"


def _quote(text: str) -> str:
    """Return *text* in quotes, shortened, with everything unprintable escaped."""
    shown = text if len(text) <= 40 else text[:39] + "…"
    return '"' + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown) + '"'
