"""Where a query's values come from: its selectors, and which of the result's series each of them feeds.

Read off promql-parser's AST, so that guards can ask about a rule's inputs. What cannot be read off is said, never
guessed: a guard that silently does nothing would be worse than none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import promql_parser

from adapter.domain.matchers import Matcher, MatchOperator, format_matchers
from adapter.domain.outline import (
    ABSENT,
    Expression,
    find_function,
    find_grouping,
    find_operator,
    needs_no_series,
    strip_parens,
)
from adapter.domain.promql import list_children, parse_expression

_NAME: Final = "__name__"
_OPERATORS: Final[tuple[tuple[Any, MatchOperator], ...]] = (  # not a dict: the parser's enum has no hash
    (promql_parser.MatchOp.Equal, "="),
    (promql_parser.MatchOp.NotEqual, "!="),
    (promql_parser.MatchOp.Re, "=~"),
    (promql_parser.MatchOp.NotRe, "!~"),
)
_SETS: Final = frozenset({"or", "and", "unless"})
_SELECTING: Final = frozenset({"topk", "bottomk", "limitk", "limit_ratio", "count_values"})
_WRITTEN_BY_SCRAPING: Final = frozenset(
    {
        "up",
        "scrape_body_size_bytes",
        "scrape_duration_seconds",
        "scrape_sample_limit",
        "scrape_samples_post_metric_relabeling",
        "scrape_samples_scraped",
        "scrape_series_added",
        "scrape_timeout_seconds",
    }
)
_WRITTEN_BY_RULES: Final = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_NUMBERS: Final = frozenset({"inf", "nan"})
_CHANGING_LABELS: Final = frozenset({"label_replace", "label_join", "info", "histogram_quantile", "histogram_fraction"})


@dataclass(frozen=True, slots=True)
class Input:
    """One vector selector of a query.

    *name* is the metric's name; *matchers* the others; *range_s* how far back the query looks from its instant, the
    ranges around it added up (0 for the newest sample alone); *offset_s* how far that instant lies before the tick.
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    range_s: float = 0.0
    offset_s: float = 0.0

    @property
    def is_fed_by_target(self) -> bool:
        """Return whether a target's own samples are selected, not what Prometheus writes about a scrape (`up`).

        Source: https://prometheus.io/docs/concepts/jobs_instances/ - those are written for failed scrapes too.
        """
        return self.name not in _WRITTEN_BY_SCRAPING

    def format_selector(self, extra: tuple[Matcher, ...] = ()) -> str:
        """Return the selector as PromQL, *extra* matchers added; without range and offset."""
        named = promql_name(self.name)
        inner = format_matchers((*named[1], *self.matchers, *extra))
        return f"{named[0]}{{{inner}}}"

    def format_offset(self) -> str:
        """Return ` offset 120s`, or nothing."""
        return f" offset {format_duration(self.offset_s)}" if self.offset_s else ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one query.

    *grouping* are the labels by which a series of the result finds its inputs: None if each series of the result is a
    series of the one input; no labels if only the query as a whole can be judged. *is_sourceless* says that the query
    can have a value from no sample at all. *gaps* say what cannot be derived, and why: then *selectors* is empty.
    """

    selectors: tuple[Input, ...] = ()
    grouping: frozenset[str] | None = frozenset()
    is_sourceless: bool = False
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def are_fed_by_targets(self) -> bool:
        """Return whether a scrape target that is down can make any of these inputs disappear."""
        return any(selector.is_fed_by_target for selector in self.selectors)


class _Gap(Exception):
    pass


def promql_name(name: str) -> tuple[str, tuple[Matcher, ...]]:
    """Return how a metric's *name* stands in a selector: before the braces, or as a matcher for unusual ones."""
    plain = name.replace(":", "_")
    if (
        plain.lower() not in _NUMBERS
        and plain.isascii()
        and plain.replace("_", "a").isalnum()
        and not plain[0].isdigit()
    ):
        return name, ()
    return "", (Matcher(_NAME, "=", name),)


def format_duration(seconds: float) -> str:
    """Return *seconds* as a Prometheus duration, exact to the millisecond; a sign before it where it lies ahead."""
    milliseconds = round(seconds * 1000)
    sign = "-" if milliseconds < 0 else ""
    whole_s, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{abs(milliseconds)}ms" if rest else f"{sign}{whole_s}s"


def derive_inputs(promql: str) -> Inputs:
    """Return the inputs of *promql*, a rendered query; never raises."""
    try:
        expression = parse_expression(promql)
    except ValueError as error:
        return Inputs(gaps=(f"the query cannot be parsed here: {error}",))
    try:
        selectors = tuple(dict.fromkeys(_list_inputs(expression, 0.0, 0.0)))
    except _Gap as gap:
        return Inputs(gaps=(str(gap),))
    except (ValueError, OverflowError) as error:
        return Inputs(gaps=(f"a range or an offset of the query is out of bounds: {error}",))
    if not selectors:
        return Inputs(gaps=("the query selects no series",), is_sourceless=True)
    notes = tuple(
        f"{selector.name} looks recorded: its timestamp is the recording rule's, and its targets are unknown"
        for selector in selectors
        if ":" in selector.name or selector.name in _WRITTEN_BY_RULES
    )
    return Inputs(
        selectors=selectors,
        grouping=_find_grouping(expression),
        is_sourceless=_is_sourceless(expression),
        notes=notes,
    )


def _list_inputs(expression: Expression, range_s: float, offset_s: float) -> Iterator[Input]:
    match expression:
        case promql_parser.VectorSelector():
            yield _build_input(expression, range_s, offset_s)
        case promql_parser.MatrixSelector():
            yield _build_input(expression.vector_selector, range_s + _seconds(expression.range), offset_s)
        case promql_parser.SubqueryExpr():
            _check_not_pinned(expression)
            below_s = range_s + _seconds(expression.range)
            yield from _list_inputs(expression.expr, below_s, offset_s + _seconds(expression.offset))
        case _:
            for child in list_children(expression):
                yield from _list_inputs(child, range_s, offset_s)


def _build_input(selector: Expression, range_s: float, offset_s: float) -> Input:
    _check_not_pinned(selector)
    if selector.matchers.or_matchers:
        raise _Gap("a selector has `or` between its matchers")
    name: str = selector.name or ""
    matchers: list[Matcher] = []
    for matcher in selector.matchers.matchers:
        if matcher.name == _NAME and matcher.op == promql_parser.MatchOp.Equal and not name:
            name = matcher.value
        elif matcher.name == _NAME:
            raise _Gap("a selector names its metric by an expression, not by one name")
        else:
            operator = next(text for op, text in _OPERATORS if op == matcher.op)
            matchers.append(Matcher(matcher.name, operator, matcher.value))
    if not name:
        raise _Gap("a selector has no metric name")
    return Input(name, tuple(matchers), range_s, offset_s + _seconds(selector.offset))


def _check_not_pinned(expression: Expression) -> None:
    if expression.at is not None:
        raise _Gap("a selector is pinned to an instant by `@`")


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration is not None else 0.0


def _find_grouping(expression: Expression) -> frozenset[str] | None:
    """Return `Inputs.grouping`."""
    outer = _strip_transparent(expression)
    if isinstance(outer, (promql_parser.VectorSelector, promql_parser.MatrixSelector)):
        return None
    if not isinstance(outer, promql_parser.AggregateExpr) or find_operator(outer) in _SELECTING:
        return frozenset()
    labels = find_grouping(outer)
    return labels if labels and _has_plain_parameter(outer) and _carries(outer.expr, labels) else frozenset()


def _strip_transparent(expression: Expression) -> Expression:
    """Return what is inside everything that keeps each series and its labels: parentheses, functions, scalars."""
    while True:
        inner = strip_parens(expression)
        match inner:
            case promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
                expression = inner.expr
            case promql_parser.Call() if find_function(inner) not in _CHANGING_LABELS | ABSENT:
                sources = [argument for argument in inner.args if not needs_no_series(argument)]
                if len(sources) != 1 or inner.func.return_type != promql_parser.ValueType.Vector:
                    return inner
                expression = sources[0]
            case promql_parser.BinaryExpr() if find_operator(inner) in {"and", "unless"} and needs_no_series(inner.rhs):
                expression = inner.lhs
            case promql_parser.BinaryExpr() if find_operator(inner) in _SETS or _drops_labels(inner):
                return inner
            case promql_parser.BinaryExpr() if needs_no_series(inner.rhs):
                expression = inner.lhs
            case promql_parser.BinaryExpr() if needs_no_series(inner.lhs):
                expression = inner.rhs
            case _:
                return inner


def _drops_labels(operation: Expression) -> bool:
    """Return whether an operation names the labels that it matches by: only those, or all but those, are left."""
    return operation.modifier is not None and operation.modifier.matching is not None


def _has_plain_parameter(aggregation: Expression) -> bool:
    """Return whether no selector hides in an aggregation's parameter: its series have other labels."""
    return aggregation.param is None or needs_no_series(aggregation.param)


def _carries(expression: Expression, labels: frozenset[str]) -> bool:
    """Return whether every selector's *labels* arrive unchanged at the top of *expression*."""
    inner = _strip_transparent(expression)
    match inner:
        case promql_parser.VectorSelector() | promql_parser.MatrixSelector():
            return True
        case promql_parser.AggregateExpr() if find_operator(inner) not in _SELECTING:
            kept = find_grouping(inner)
            is_kept = kept is not None and labels <= kept and _has_plain_parameter(inner)
            return is_kept and _carries(inner.expr, labels)
        case promql_parser.BinaryExpr() if find_operator(inner) == "or":
            return _carries(inner.lhs, labels) and _carries(inner.rhs, labels)
        case _:
            return False


def _is_sourceless(expression: Expression) -> bool:
    """Return whether the result can hold a value that came from no sample: `or vector(0)`, `absent()`."""
    inner = strip_parens(expression)
    if needs_no_series(inner) or find_function(inner) in ABSENT:
        return True
    if isinstance(inner, promql_parser.BinaryExpr) and find_operator(inner) in {"and", "unless"}:
        return _is_sourceless(inner.lhs)
    if isinstance(inner, promql_parser.BinaryExpr) and find_operator(inner) != "or":
        sides = [side for side in (inner.lhs, inner.rhs) if not needs_no_series(side)]
        return all(map(_is_sourceless, sides))
    if isinstance(inner, promql_parser.AggregateExpr):
        return _is_sourceless(inner.expr)
    if isinstance(inner, promql_parser.Call):
        return any(_is_sourceless(argument) for argument in inner.args if not needs_no_series(argument))
    return any(map(_is_sourceless, list_children(inner)))
