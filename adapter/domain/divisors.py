"""Whether a divisor can be zero, as far as the text of the query decides it."""

from typing import Final

import promql_parser

from adapter.domain.outline import COMPARISON, Expression, find_function, find_number, find_operator, strip_parens

_NEVER_ZERO: Final = frozenset({"count", "group"})
_KEEPS_NONZERO: Final = frozenset({"sum", "min", "max", "avg", "topk", "bottomk", "limitk"})
_WRAPPING: Final = frozenset({"scalar", "vector"})


def is_never_zero(expression: Expression) -> bool:
    """Return whether no series of *expression* can have the value 0: `b > 0`, `clamp_min(b, 1)`, `count(b)`, `60`.

    Sums of values that are never zero are taken to be positive: an exporter's counts are.
    """
    expression = strip_parens(expression)
    operator, function = find_operator(expression), find_function(expression)
    number = find_number(expression)
    if number is not None:
        answer = number != 0
    elif operator in COMPARISON:
        answer = _excludes_zero(expression)
    elif isinstance(expression, promql_parser.AggregateExpr):
        answer = operator in _NEVER_ZERO or (operator in _KEEPS_NONZERO and is_never_zero(expression.expr))
    elif operator in {"and", "unless"}:
        answer = is_never_zero(expression.lhs)
    elif operator in {"*", "/", "or"}:
        answer = is_never_zero(expression.lhs) and is_never_zero(expression.rhs)
    elif operator == "+":  # as in b + 1, which is how people avoid it
        answer = any((find_number(side) or 0) > 0 for side in (expression.lhs, expression.rhs))
    elif function == "clamp_min":
        answer = (find_number(expression.args[1]) or 0) > 0
    else:
        answer = function in {"time", "pi"} or (function in _WRAPPING and is_never_zero(expression.args[0]))
    return answer


def _excludes_zero(comparison: Expression) -> bool:
    if comparison.modifier is not None and comparison.modifier.return_bool:
        return False
    limit = find_number(comparison.rhs)
    if limit is None:
        return True  # compared with another series: whoever wrote it has thought about small values
    return {
        ">": limit >= 0,
        ">=": limit > 0,
        "<": limit <= 0,
        "<=": limit < 0,
        "!=": limit == 0,
        "==": limit != 0,
    }[find_operator(comparison)]
