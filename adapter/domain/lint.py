"""What is suspicious in a rule, read off its query without asking a backend.

A finding is not a problem: the rule is served all the same. An *error* is a rule that can never answer with a number
(or never with the one that was meant); a *warning* is one that may mislead the HPA, or that cannot be watched over.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import promql_parser

from adapter.domain.derivability import derive_rule_inputs, find_underived
from adapter.domain.divisors import is_never_zero
from adapter.domain.outline import (
    ABSENT,
    ARITHMETIC,
    Expression,
    find_function,
    find_grouping,
    find_labels,
    find_operator,
    has_one_series,
    list_selectors,
    list_vector_operands,
    needs_no_series,
    strip_parens,
)
from adapter.domain.promql import Placeholder, walk_expression
from adapter.domain.rules import NamespaceLabel, Rule
from adapter.errors import clip_text

Level = Literal["error", "warning"]

_PARSER_TEXT_LIMIT: Final = 160
_STRING_OR_COMMENT: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|#[^\n]*""", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$__\w+|\$\{\w+(?::\w+)?\}|\$(?!matchers\b|namespace\b)[A-Za-z]\w*|\[\[\w+\]\]")
_PLACEHOLDERS: Final = re.compile("|".join(rf"{re.escape(placeholder.value)}\b" for placeholder in Placeholder))


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicion about one rule. *code* is a short stable name; *origin* is the rule's `FILE:LINE`."""

    level: Level
    code: str
    message: str
    rule: str
    origin: str = ""

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        return f"{where}metrics {self.rule}: {self.level}: {self.message} [{self.code}]"


_Remark = tuple[Level, str, str]
"""Level, code and message of a finding to be."""


def _fail(code: str, message: str) -> _Remark:
    return "error", code, message


def _warn(code: str, message: str) -> _Remark:
    return "warning", code, message


def lint_rules(rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Return the findings on *rules*, in their order."""
    return tuple(finding for rule in rules for finding in lint_rule(rule))


def lint_rule(rule: Rule) -> tuple[Finding, ...]:
    """Return what is suspicious in *rule*: errors first, each code at most once for the same text."""
    expression = rule.shape.expression
    if expression is None:
        remarks = list(_judge_unparsed(rule))
    else:
        remarks = [remark for check in _CHECKS for remark in check(rule, expression)]
    ordered: Sequence[_Remark] = sorted(dict.fromkeys(remarks), key=lambda remark: remark[0] != "error")
    return tuple(Finding(level, code, message, rule.name, rule.origin) for level, code, message in ordered)


def _judge_unparsed(rule: Rule) -> Iterator[_Remark]:
    variable = _VARIABLE.search(_STRING_OR_COMMENT.sub("", rule.query.text))
    if variable:
        yield _variable_remark("error", variable.group())
        return
    text = clip_text(rule.shape.problem, _PARSER_TEXT_LIMIT)
    yield _warn(
        "not-parsed",
        f"depthgauge cannot parse the query ({text}), so nothing more can be said about it and no guard can be derived "
        "from it; the backend decides: run check --live, and mend the query if the backend refuses it too",
    )


def _judge_result_type(rule: Rule, _: Expression) -> Iterator[_Remark]:
    kind = rule.shape.result_type
    if kind == "matrix":
        advice = "wrap the range in a function such as max_over_time(...), or drop it"
    elif kind == "string":
        advice = "write a query, not a text in quotes"
    else:
        return
    yield _fail("wrong-result-type", f"the query gives a {kind} and will always answer WrongResultType; {advice}")


def _judge_no_series(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    if rule.shape.result_type in {"vector", "scalar"} and needs_no_series(expression):
        yield _warn(
            "no-series",
            "the query selects no series, so its value depends on nothing that is measured and no guard can watch over "
            "it; name the metric to scale on",
        )


def _judge_zero_fallback(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    pushed = ", and with $matchers a mistyped selector is answered by it too" if rule.query.has_matchers else ""
    for fallback in _list_fallbacks(expression):
        if needs_no_series(fallback):
            yield _warn(
                "constant-fallback",
                f'a constant beside "or" (such as "or vector(0)") stands in for missing series, so a dead exporter '
                f"looks like an empty queue to all but guards.lostTargets{pushed}; drop it, and the rule answers "
                "NoSamples then, on which the HPA holds its replicas, or 0 with the evidence of empty.zeroWhile",
            )
        elif _is_made_of_absent(fallback):
            yield _warn(
                "absent-fallback",
                f"absent() stands in for missing series, so a dead exporter looks like an empty queue, under the "
                f"query's own labels, to all but guards.lostTargets{pushed}; drop it, and the rule answers NoSamples "
                "then, on which the HPA holds its replicas, or 0 with the evidence of empty.zeroWhile",
            )


def _list_fallbacks(expression: Expression) -> Iterator[Expression]:
    """Yield the sides of every `or` from which a value can reach the result."""
    if find_operator(expression) == "or":
        yield from (expression.lhs, expression.rhs)
    for operand in list_vector_operands(expression):
        yield from _list_fallbacks(operand)


def _is_made_of_absent(expression: Expression) -> bool:
    expression = strip_parens(expression)
    if find_function(expression) in ABSENT:
        return True
    parts = list_vector_operands(expression)
    series = [part for part in parts if not needs_no_series(part)]
    return bool(series) and all(map(_is_made_of_absent, series))


def _judge_added_items(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    """V5: the HPA adds the items of one answer; ratios and quantiles must not be added."""
    what = _find_not_additive(expression)
    if what is None or rule.guards.expect_one or has_one_series(expression):
        return
    labels = find_labels(expression)
    if isinstance(rule.namespace, NamespaceLabel) and labels == frozenset({rule.namespace.label}):
        return
    yield _warn(
        "several-ratios",
        f"{what} with several series: the HPA adds the items of an answer, and three times 0.8 becomes 2.4; aggregate "
        "both sides to one series, or set guards.expectOne where every HPA's selector picks one",
    )


def _find_not_additive(expression: Expression) -> str | None:
    """Return what the result's values are, if their sum means nothing; None inside an outer aggregation."""
    expression = strip_parens(expression)
    operator = find_operator(expression)
    if find_function(expression).startswith("histogram_quantile") or operator == "quantile":
        return "a quantile"
    if isinstance(expression, promql_parser.AggregateExpr) and operator not in {"topk", "bottomk", "limitk"}:
        return None
    if operator == "/" and not needs_no_series(expression.rhs):
        return "a ratio"
    parts = [part for part in list_vector_operands(expression) if not needs_no_series(part)]
    return next((what for what in map(_find_not_additive, parts) if what), None)


def _judge_outermost_average(_: Rule, expression: Expression) -> Iterator[_Remark]:
    """H1: with an AverageValue target the HPA divides by the replicas itself."""
    expression = _strip_scaling(expression)
    if find_operator(expression) == "avg" and find_grouping(expression) == frozenset():
        yield _warn(
            "average",
            "the outermost avg() is an average already: an AverageValue target divides it by the replicas once more; "
            "use sum() there, or keep avg() and use a Value target",
        )


def _strip_scaling(expression: Expression) -> Expression:
    """Return what is left of *expression* without parentheses, and without arithmetic with a constant around it."""
    expression = strip_parens(expression)
    if find_operator(expression) in ARITHMETIC:
        if needs_no_series(expression.rhs):
            return _strip_scaling(expression.lhs)
        if needs_no_series(expression.lhs):
            return _strip_scaling(expression.rhs)
    return expression


def _judge_not_finite(_: Rule, expression: Expression) -> Iterator[_Remark]:
    """N1, N2: division by zero is NaN or Inf, and so is a quantile of nothing."""
    nodes = list(walk_expression(expression))
    safe = {id(child) for node in nodes if find_operator(node) in {"and", "unless"} for child in walk_expression(node)}
    if any(
        find_operator(node) in {"/", "%"} and id(node) not in safe and not is_never_zero(node.rhs) for node in nodes
    ):
        yield _warn(
            "division-by-zero",
            "while the divisor is 0 the value is NaN or Inf and the rule answers NotFinite; say what happens then: "
            "a / (b > 0) answers NoSamples, a / clamp_min(b, 1) goes on counting",
        )
    if any(find_function(node).startswith("histogram_quantile") and id(node) not in safe for node in nodes):
        yield _warn(
            "idle-quantile",
            "histogram_quantile() is NaN while nothing is observed, and the rule answers NotFinite then; if that is "
            'not meant, append "and on () sum(rate(..._count[5m])) > 0" to answer NoSamples',
        )


def _judge_recorded_series(rule: Rule, _: Expression) -> Iterator[_Remark]:
    inputs = derive_rule_inputs(rule)
    if inputs.gaps or not find_underived(rule):
        return
    for note in inputs.notes:
        yield _warn(
            "recorded-series",
            f"{clip_text(note, 300)}, so neither maxAge nor lostTargets can be derived; query the series behind "
            "it, or write guards.freshness and guards.require",
        )


def _judge_underived_guards(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    """Name the guards that are on and do nothing; recorded series and queries without any have their own remarks."""
    if next(list_selectors(expression), None) is None or not derive_rule_inputs(rule).gaps:
        return
    for guard, reason in find_underived(rule).items():
        yield _warn("guard-underived", f"guards.{guard} does nothing, as it cannot be derived: {reason}")


def _judge_absent_of_matchers(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    if not rule.query.has_matchers:
        return
    calls = (node for node in walk_expression(expression) if find_function(node) in ABSENT)
    if any(_has_placeholder(selector) for call in calls for selector in list_selectors(call)):
        yield _warn(
            "absent-of-matchers",
            "$matchers stands inside absent(): a selector that matches nothing, or is mistyped, gets a number instead "
            "of NoMatch; take the absent() part out",
        )


def _has_placeholder(selector: Expression) -> bool:
    return any(matcher.name == "placeholder" for matcher in selector.matchers.matchers)


def _judge_texts(_: Rule, expression: Expression) -> Iterator[_Remark]:
    """Look at the texts that series are selected by: placeholders and variables in quotes are not replaced."""
    for selector in list_selectors(expression):
        for matcher in selector.matchers.matchers:
            quoted = _PLACEHOLDERS.search(matcher.value)
            if quoted:
                yield _warn(
                    "placeholder-in-text",
                    f"{quoted.group()} stands in quotes and is plain text there, so the series would need exactly "
                    f"that value; write it without the quotes: "
                    + ("q{$matchers}" if quoted.group() == "$matchers" else f"q{{{matcher.name}=$namespace}}"),
                )
            variable = _VARIABLE.search(matcher.value)
            if variable:
                yield _variable_remark("warning", variable.group())


def _variable_remark(level: Level, variable: str) -> _Remark:
    refused = "the backend refuses it" if level == "error" else "here it is plain text that no series has"
    advice = "write a range such as [5m]" if variable.startswith("$__") else "write the value, or $matchers"
    return (
        level,
        "dashboard-variable",
        f"{clip_text(variable, 40)} is a variable of a dashboard and {refused}; {advice}",
    )


def _judge_dropped_labels(rule: Rule, expression: Expression) -> Iterator[_Remark]:
    """In a snapshot rule, what requests select by must survive the query's aggregations."""
    labels = find_labels(expression)
    if labels is None or rule.query.has_matchers:
        return
    kept = ", ".join(sorted(labels)) or "none"
    if isinstance(rule.namespace, NamespaceLabel) and rule.namespace.label not in labels:
        yield _fail(
            "namespace-label-dropped",
            f'the result cannot have the label "{rule.namespace.label}" of namespace (it keeps {kept}), so every '
            f"request will answer NoMatch; keep it with by ({rule.namespace.label}), or put $matchers into the query",
        )
    for key, label in rule.labels.items():
        if label not in labels:
            yield _warn(
                "mapped-label-dropped",
                f'labels maps "{key}" to "{label}", which the result cannot have (it keeps {kept}), so a selector on '
                f"it will answer NoMatch; keep it with by ({label}), or put $matchers into the selectors",
            )


_CHECKS: Final[Sequence[Callable[[Rule, Expression], Iterator[_Remark]]]] = (
    _judge_result_type,
    _judge_no_series,
    _judge_zero_fallback,
    _judge_added_items,
    _judge_outermost_average,
    _judge_not_finite,
    _judge_recorded_series,
    _judge_underived_guards,
    _judge_absent_of_matchers,
    _judge_texts,
    _judge_dropped_labels,
)
