"""A rule's query: the text with its placeholders, and what can be read off it without asking a backend.

promql-parser parses and types; its printer is never used, because it does not escape. A query that it cannot parse is
still sent: it may be PromQL newer than the parser.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

import promql_parser

from adapter.domain.matchers import Matcher, format_matchers, quote_string

NESTING_LIMIT: Final = 400
"""Operators and opening parentheses of a query that is parsed: each can be one level of the AST."""

_BRACES: Final = re.compile(r"\{[^{}]*\}")
_NESTING: Final = re.compile(r"[-+*/%^(\[{]|[=!<>]=?|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)

ResultType = Literal["vector", "scalar", "matrix", "string"]


class Placeholder(Enum):
    """What a request puts into a query."""

    MATCHERS = "$matchers"
    NAMESPACE = "$namespace"


_Part = str | Placeholder


class BadTemplate(ValueError):
    """The query's placeholders stand where they cannot work."""


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """PromQL with `$matchers` and `$namespace`, ready to be rendered; see `parse_template`."""

    text: str
    _filled: tuple[_Part, ...]
    _bare: tuple[_Part, ...]

    @property
    def has_matchers(self) -> bool:
        """Return whether the request's selectors go into the query (pushdown)."""
        return Placeholder.MATCHERS in self._filled

    @property
    def has_namespace(self) -> bool:
        """Return whether the request's namespace goes into the query."""
        return Placeholder.NAMESPACE in self._filled

    def render(self, *, matchers: Sequence[Matcher] = (), namespace: str = "") -> str:
        """Return the PromQL to send; without *matchers* the comma beside the placeholder goes with it."""
        parts = self._filled if matchers else self._bare
        values = {Placeholder.MATCHERS: format_matchers(matchers), Placeholder.NAMESPACE: quote_string(namespace)}
        return "".join(part if isinstance(part, str) else values[part] for part in parts)


def parse_template(text: str) -> QueryTemplate:
    """Return *text* as a template.

    Placeholders inside strings and comments are text. Raises BadTemplate if `$matchers` does not stand between braces.
    """
    filled: list[_Part] = []
    spans: list[tuple[int, int, Placeholder]] = []
    plain = _blank_out_strings_and_comments(text)
    end = 0
    for start, placeholder in _find_placeholders(plain):
        if placeholder is Placeholder.MATCHERS and plain.count("{", 0, start) <= plain.count("}", 0, start):
            raise BadTemplate("$matchers must stand between the braces of a selector, as in q{$matchers}")
        filled += (text[end:start], placeholder)
        end = start + len(placeholder.value)
        spans.append((start, end, placeholder))
    filled.append(text[end:])
    return QueryTemplate(text=text, _filled=tuple(filled), _bare=tuple(_build_bare(text, plain, spans)))


def _build_bare(text: str, plain: str, spans: list[tuple[int, int, Placeholder]]) -> Iterator[_Part]:
    """Yield the parts for a request without matchers: `$matchers` is dropped, and the comma that it leaves behind."""
    kept_from = 0
    for start, end, placeholder in spans:
        if placeholder is Placeholder.NAMESPACE:
            yield text[kept_from:start]
            yield placeholder
            kept_from = end
            continue
        before = plain[:start].rstrip()
        after = len(plain) - len(plain[end:].lstrip())
        if plain[after : after + 1] == ",":
            yield text[kept_from:start]
            kept_from = after + 1
        elif before.endswith(",") and len(before) > kept_from:
            yield text[kept_from : len(before) - 1] + text[len(before) : start]
            kept_from = end
        else:
            yield text[kept_from:start]
            kept_from = end
    yield text[kept_from:]


def _find_placeholders(plain: str) -> Iterator[tuple[int, Placeholder]]:
    position = plain.find("$")
    while position >= 0:
        for placeholder in Placeholder:
            stop = position + len(placeholder.value)
            next_char = plain[stop : stop + 1]
            if plain.startswith(placeholder.value, position) and not (next_char.isalnum() or next_char == "_"):
                yield position, placeholder
        position = plain.find("$", position + 1)


def _blank_out_strings_and_comments(text: str) -> str:
    """Return *text* at its length, strings and comments replaced: strings by underscores, comments by blanks."""
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        stop = position + 1
        if char in "\"'`":
            stop = _find_string_end(text, position)
            out.append("_" * (stop - position))
        elif char == "#":
            newline = text.find("\n", position)
            stop = len(text) if newline < 0 else newline
            out.append(" " * (stop - position))
        else:
            out.append(char)
        position = stop
    return "".join(out)


def _find_string_end(text: str, start: int) -> int:
    quote = text[start]
    position = start + 1
    while position < len(text) and text[position] != quote:
        position += 2 if text[position] == "\\" and quote != "`" else 1
    return min(position + 1, len(text))


@dataclass(frozen=True, slots=True)
class Shape:
    """What the parser says of a query. *problem* is its text where it cannot parse it; the rest is empty then."""

    result_type: ResultType | None = None
    problem: str = ""
    expression: Any = None


def parse_shape(template: QueryTemplate) -> Shape:
    """Return the shape of *template*, rendered for some request."""
    matchers = (Matcher("placeholder", "!=", ""),) if template.has_matchers else ()
    try:
        expression = parse_expression(template.render(matchers=matchers, namespace="default"))
    except ValueError as error:
        return Shape(problem=str(error))
    return Shape(result_type=_find_type(expression), expression=expression)


def parse_expression(promql: str) -> Any:  # noqa: ANN401 - the parser's classes share no typed base
    """Return the parser's AST of *promql*.

    Raises: ValueError for what it cannot parse, and for what nests so deeply that the parser would overflow its stack
    and end the process (seen from 4,000 levels on; here from NESTING_LIMIT).
    """
    plain = _BRACES.sub("", _blank_out_strings_and_comments(promql))
    if len(_NESTING.findall(plain)) > NESTING_LIMIT:
        raise ValueError(f"more than {NESTING_LIMIT} operators and parentheses")
    return promql_parser.parse(promql)


def walk_expression(expression: Any) -> Iterator[Any]:  # noqa: ANN401 - the parser's classes share no typed base
    """Yield *expression* and everything below it, parents first."""
    yield expression
    for child in list_children(expression):
        yield from walk_expression(child)


def list_children(expression: Any) -> Iterable[Any]:  # noqa: ANN401 - as above
    """Return what stands directly below *expression*."""
    match expression:
        case promql_parser.BinaryExpr():
            return (expression.lhs, expression.rhs)
        case promql_parser.AggregateExpr():
            return tuple(part for part in (expression.param, expression.expr) if part is not None)
        case promql_parser.Call():
            return tuple(expression.args)
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
            return (expression.expr,)
        case promql_parser.MatrixSelector():
            return (expression.vector_selector,)
        case _:
            return ()


def _find_type(expression: Any) -> ResultType:  # noqa: ANN401 - as above
    result: ResultType = "vector"
    match expression:
        case promql_parser.NumberLiteral():
            result = "scalar"
        case promql_parser.StringLiteral():
            result = "string"
        case promql_parser.MatrixSelector() | promql_parser.SubqueryExpr():
            result = "matrix"
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr():
            result = _find_type(expression.expr)
        case promql_parser.BinaryExpr() if _find_type(expression.lhs) == _find_type(expression.rhs) == "scalar":
            result = "scalar"
        case promql_parser.Call() if expression.func.return_type == promql_parser.ValueType.Scalar:
            result = "scalar"
    return result
