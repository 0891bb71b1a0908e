"""What a query's result will look like, as far as the text of the query decides it: its labels, and how many series.

Everything here works on promql-parser's AST and never asks a backend. Where the query leaves it open, the answer is
None: an open question is not a finding.
"""

from collections.abc import Iterator
from typing import Any, Final

import promql_parser

from adapter.domain.promql import walk_expression

Expression = Any
"""A node of promql-parser's AST; its classes share no typed base."""

ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})
COMPARISON: Final = frozenset({"==", "!=", ">", "<", ">=", "<="})
ABSENT: Final = frozenset({"absent", "absent_over_time"})

_SELECTING: Final = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_WITHOUT_LABELS: Final = frozenset({"scalar", "vector", "time", "pi"})
_RELABELLING: Final = frozenset({"label_replace", "label_join", "info"})
_ONE_SERIES: Final = _WITHOUT_LABELS | ABSENT


def strip_parens(expression: Expression) -> Expression:
    """Return *expression* without the parentheses around it."""
    while isinstance(expression, promql_parser.ParenExpr):
        expression = expression.expr
    return expression


def find_operator(expression: Expression) -> str:
    """Return the operator of a binary expression (`or`, `/`, `>`), the name of an aggregation (`sum`), else nothing."""
    if isinstance(expression, (promql_parser.BinaryExpr, promql_parser.AggregateExpr)):
        return str(expression.op)
    return ""


def find_function(expression: Expression) -> str:
    """Return the name of the function that *expression* calls, else nothing."""
    return str(expression.func.name) if isinstance(expression, promql_parser.Call) else ""


def find_number(expression: Expression) -> float | None:
    """Return the value of a number literal, its sign included, or None."""
    expression = strip_parens(expression)
    if isinstance(expression, promql_parser.NumberLiteral):
        return float(expression.val)
    if isinstance(expression, promql_parser.UnaryExpr):
        number = find_number(expression.expr)
        return None if number is None else -number
    return None


def list_selectors(expression: Expression) -> Iterator[Expression]:
    """Yield every vector selector below *expression*, those of ranges too."""
    return (node for node in walk_expression(expression) if isinstance(node, promql_parser.VectorSelector))


def needs_no_series(expression: Expression) -> bool:
    """Return whether *expression* gives a value whatever series there are: `vector(0)`, `time()`, `1 + 1`."""
    return next(list_selectors(expression), None) is None


def list_vector_operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of *expression* whose series become series of its result."""
    match expression:
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.AggregateExpr():
            return (expression.expr,)
        case promql_parser.Call():
            return tuple(expression.args)
        case promql_parser.BinaryExpr() if find_operator(expression) in {"and", "unless"}:
            return (expression.lhs,)
        case promql_parser.BinaryExpr():
            return (expression.lhs, expression.rhs)
        case _:
            return ()


def has_one_series(expression: Expression) -> bool:  # noqa: PLR0911 - one answer a kind of node
    """Return whether the result has at most one series, whatever the backend holds."""
    expression = strip_parens(expression)
    operator = find_operator(expression)
    match expression:
        case promql_parser.NumberLiteral():
            return True
        case promql_parser.UnaryExpr():
            return has_one_series(expression.expr)
        case promql_parser.AggregateExpr():
            if operator in _SELECTING:
                return expression.modifier is None and find_number(expression.param) == 1
            return operator != "count_values" and find_grouping(expression) == frozenset()
        case promql_parser.Call():
            if find_function(expression) in _ONE_SERIES or find_labels(expression) == frozenset():
                return True
            return any(map(_is_vector, expression.args)) and all(map(has_one_series, expression.args))
        case promql_parser.BinaryExpr() if operator in {"and", "unless"}:
            return has_one_series(expression.lhs)
        case promql_parser.BinaryExpr() if operator != "or":
            return has_one_series(expression.lhs) and has_one_series(expression.rhs)
        case _:
            return find_labels(expression) == frozenset()


def find_grouping(aggregation: Expression) -> frozenset[str] | None:
    """Return the labels that an aggregation keeps, none for a bare `sum(...)`; None where it says `without`."""
    if aggregation.modifier is None:
        return frozenset()
    if aggregation.modifier.type == promql_parser.AggModifierType.By:
        return frozenset(aggregation.modifier.labels)
    return None


def find_labels(expression: Expression) -> frozenset[str] | None:
    """Return the labels that the result can have at most, or None where the series decide."""
    expression = strip_parens(expression)
    match expression:
        case promql_parser.NumberLiteral():
            return frozenset()
        case promql_parser.UnaryExpr():
            return find_labels(expression.expr)
        case promql_parser.AggregateExpr():
            return _find_labels_of_aggregation(expression)
        case promql_parser.Call():
            return _find_labels_of_call(expression)
        case promql_parser.BinaryExpr():
            return _find_labels_of_operation(expression)
        case _:
            return None


def _find_labels_of_aggregation(expression: Expression) -> frozenset[str] | None:
    operator = find_operator(expression)
    below = find_labels(expression.expr)
    if operator in _SELECTING:
        return below
    kept = find_grouping(expression)
    if kept is None:
        return None if below is None else below - frozenset(expression.modifier.labels)
    if below is not None:
        kept &= below
    return kept | {expression.param.val} if operator == "count_values" else kept


def _find_labels_of_call(expression: Expression) -> frozenset[str] | None:
    function = find_function(expression)
    if function in _WITHOUT_LABELS:
        return frozenset()
    vectors = [argument for argument in expression.args if _is_vector(argument)]
    if function in _RELABELLING or function in ABSENT or len(vectors) != 1:
        return None
    below = find_labels(vectors[0])
    return below - {"le"} if below is not None and function.startswith("histogram_quantile") else below


def _find_labels_of_operation(expression: Expression) -> frozenset[str] | None:  # noqa: PLR0911 - one a kind of match
    left, right = find_labels(expression.lhs), find_labels(expression.rhs)
    operator = find_operator(expression)
    modifier = expression.modifier
    if operator in {"and", "unless"}:
        return left
    if operator == "or":
        return None if left is None or right is None else left | right
    if _is_scalar(expression.rhs):
        return left
    if _is_scalar(expression.lhs):
        return right
    if modifier is not None and modifier.group_labels is not None:
        many = right if modifier.card == promql_parser.VectorMatchCardinality.OneToMany else left
        return None if many is None else many | frozenset(modifier.group_labels)
    if modifier is not None and modifier.matching is not None:
        named = frozenset(modifier.matching.labels)
        if modifier.matching.type == promql_parser.LabelModifierType.Include:
            return named if left is None else named & left
        return None if left is None else left - named
    if left is None or right is None:
        return right if left is None else left  # one to one without `on`: both sides have the same labels
    return left & right


def _is_scalar(expression: Expression) -> bool:
    expression = strip_parens(expression)
    match expression:
        case promql_parser.NumberLiteral():
            return True
        case promql_parser.UnaryExpr():
            return _is_scalar(expression.expr)
        case promql_parser.BinaryExpr():
            return _is_scalar(expression.lhs) and _is_scalar(expression.rhs)
        case promql_parser.Call():
            return bool(expression.func.return_type == promql_parser.ValueType.Scalar)
        case _:
            return False


def _is_vector(expression: Expression) -> bool:
    return not _is_scalar(expression) and not isinstance(strip_parens(expression), promql_parser.StringLiteral)
