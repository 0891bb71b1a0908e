"""Inputs: what a query's values rest on, read off its text; what cannot be read off is said."""

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.inputs import Input, derive_inputs, promql_name
from adapter.domain.matchers import Matcher, MatchOperator

WHOLE: frozenset[str] = frozenset()
QUEUE = frozenset({"queue"})

_OPERATORS: tuple[tuple[object, MatchOperator], ...] = (
    (promql_parser.MatchOp.Equal, "="),
    (promql_parser.MatchOp.NotEqual, "!="),
    (promql_parser.MatchOp.Re, "=~"),
    (promql_parser.MatchOp.NotRe, "!~"),
)


def seen(promql: str) -> list[tuple[str, float, float]]:
    """Return name, range and offset of every input of *promql*."""
    return [(each.name, each.range_s, each.offset_s) for each in derive_inputs(promql).selectors]


@pytest.mark.parametrize(
    ("promql", "expected"),
    [
        pytest.param("q", [("q", 0, 0)], id="plain"),
        pytest.param('{__name__="q"}', [("q", 0, 0)], id="name_as_a_matcher"),
        pytest.param('{"my.metric", "a.b"="c"}', [("my.metric", 0, 0)], id="utf8_name"),
        pytest.param("job:q:sum", [("job:q:sum", 0, 0)], id="recorded_name"),
        pytest.param("rate(q[5m])", [("q", 300, 0)], id="range"),
        pytest.param("q offset 2m", [("q", 0, 120)], id="offset"),
        pytest.param("q offset -2m", [("q", 0, -120)], id="offset_ahead"),
        pytest.param("rate(q[5m] offset 2m)", [("q", 300, 120)], id="range_and_offset"),
        pytest.param("max_over_time(q[15m:1m])", [("q", 900, 0)], id="subquery"),
        pytest.param("max_over_time(rate(q[5m])[15m:1m])", [("q", 1200, 0)], id="ranges_add_up"),
        pytest.param(
            "max_over_time(sum_over_time(rate(q[1m] offset 1m)[5m:30s] offset 2m)[10m:])",
            [("q", 960, 180)],
            id="nested_subqueries_and_offsets",
        ),
        pytest.param("sum(a) / sum(b)", [("a", 0, 0), ("b", 0, 0)], id="two"),
        pytest.param("sum(q) / count(q)", [("q", 0, 0)], id="equal_ones_are_one"),
        pytest.param("q - q offset 1h", [("q", 0, 0), ("q", 0, 3600)], id="same_series_twice"),
        pytest.param("a or b and c unless d", [("a", 0, 0), ("b", 0, 0), ("c", 0, 0), ("d", 0, 0)], id="sets"),
        pytest.param("topk(scalar(n), q)", [("n", 0, 0), ("q", 0, 0)], id="in_a_parameter"),
        pytest.param("clamp_max(q, scalar(top))", [("q", 0, 0), ("top", 0, 0)], id="in_an_argument"),
        pytest.param("-(q)", [("q", 0, 0)], id="unary_minus"),
        pytest.param("count{}", [("count", 0, 0)], id="keyword_as_a_name"),
    ],
)
def test_inputs_are_every_selector_with_its_reach(promql: str, expected: list[tuple[str, float, float]]) -> None:
    """Each distinct selector is an input; ranges around it add up, and so do offsets."""
    assert seen(promql) == expected
    assert derive_inputs(promql).gaps == ()


@pytest.mark.parametrize(
    ("promql", "why"),
    [
        pytest.param("sum(", "cannot be parsed", id="broken"),
        pytest.param("", "cannot be parsed", id="nothing"),
        pytest.param("(" * 500 + "q" + ")" * 500, "operators and parentheses", id="too_deep"),
        pytest.param("vector(0)", "selects no series", id="no_selector"),
        pytest.param("42", "selects no series", id="number"),
        pytest.param('"text"', "selects no series", id="string"),
        pytest.param('{__name__=~"a|b"}', "by an expression", id="name_by_expression"),
        pytest.param('{__name__!="a", x="1"}', "by an expression", id="name_excluded"),
        pytest.param('{job="a"}', "no metric name", id="no_name"),
        pytest.param('q{a="1" or b="2"}', "`or` between", id="or_matchers"),
        pytest.param("q @ 1700000000", "pinned", id="at"),
        pytest.param("max_over_time(q[5m:] @ end())", "pinned", id="subquery_at"),
        pytest.param("rate(q[5m] @ start())", "pinned", id="range_at"),
        pytest.param("q offset 99999999y", "out of bounds", id="offset_beyond_all_bounds"),
        pytest.param('sum(q) + sum({job="a"})', "no metric name", id="one_of_two"),
    ],
)
def test_inputs_that_cannot_be_derived_are_said(promql: str, why: str) -> None:
    """A gap names its reason, and then nothing is derived at all: half a guard would look like a whole one."""
    inputs = derive_inputs(promql)
    assert inputs.selectors == ()
    assert any(why in gap for gap in inputs.gaps), inputs.gaps


@pytest.mark.parametrize(
    ("promql", "grouping"),
    [
        pytest.param("q", None, id="plain"),
        pytest.param("-q * 60 + 1", None, id="arithmetic_with_numbers"),
        pytest.param("rate(q[5m])", None, id="function"),
        pytest.param("clamp_min(round(q), 1)", None, id="functions"),
        pytest.param("q > 5", None, id="comparison"),
        pytest.param("q > bool 5", None, id="comparison_bool"),
        pytest.param("time() - q", None, id="number_on_the_left"),
        pytest.param("q and on () vector(1)", None, id="and_constant"),
        pytest.param("max_over_time(q[10m:1m])", None, id="subquery"),
        pytest.param("q * on () vector(2)", WHOLE, id="on_drops_labels"),
        pytest.param("q * ignoring (queue) vector(2)", WHOLE, id="ignoring_drops_labels"),
        pytest.param("q > on () vector(2)", WHOLE, id="comparison_on_drops_labels"),
        pytest.param("sum(q)", WHOLE, id="sum"),
        pytest.param("sum by (queue) (q)", QUEUE, id="by"),
        pytest.param('sum by ("my.label") ({"my.metric"})', frozenset({"my.label"}), id="by_utf8"),
        pytest.param("sum by (queue) (q) > 5", QUEUE, id="by_compared"),
        pytest.param("-sum by (queue) (q)", QUEUE, id="by_negated"),
        pytest.param("ceil(sum by (queue) (rate(q[5m])) * 60)", QUEUE, id="by_in_functions"),
        pytest.param("max_over_time(sum by (queue) (q)[10m:1m])", QUEUE, id="by_in_subquery"),
        pytest.param("sum by (queue) (max by (queue, pod) (q))", QUEUE, id="by_of_more"),
        pytest.param("sum by (queue) (a or b)", QUEUE, id="by_of_or"),
        pytest.param("sum by (queue, pod) (max by (queue) (q))", WHOLE, id="by_of_less"),
        pytest.param("sum by (queue) (max without (pod) (q))", WHOLE, id="by_of_without"),
        pytest.param("sum without (pod) (q)", WHOLE, id="without"),
        pytest.param("sum by (queue) (a * on (pod) group_left (queue) b)", WHOLE, id="by_of_join"),
        pytest.param("sum by (queue) (q and on (pod) b)", WHOLE, id="by_of_and"),
        pytest.param("sum by (queue) (a unless b)", WHOLE, id="by_of_unless"),
        pytest.param('sum by (queue) (label_replace(q, "queue", "$1", "name", "(.*)"))', WHOLE, id="by_of_rewritten"),
        pytest.param('label_replace(sum by (queue) (q), "x", "$1", "queue", "(.*)")', WHOLE, id="by_rewritten"),
        pytest.param('label_join(q, "x", "-", "queue")', WHOLE, id="joined"),
        pytest.param("histogram_quantile(0.9, sum by (le, queue) (rate(q[5m])))", WHOLE, id="quantile_drops_le"),
        pytest.param("quantile by (queue) (scalar(z), q)", WHOLE, id="selector_in_the_parameter"),
        pytest.param("sum by (queue) (quantile by (queue) (scalar(z), q))", WHOLE, id="selector_in_a_parameter_below"),
        pytest.param("clamp_max(q, scalar(top))", WHOLE, id="selector_in_an_argument"),
        pytest.param("topk(1, sum by (queue) (q))", WHOLE, id="topk"),
        pytest.param("sum by (queue) (topk(1, q))", WHOLE, id="by_of_topk"),
        pytest.param('count_values("queue", q)', WHOLE, id="count_values"),
        pytest.param("sum by (queue) (a) / sum by (queue) (b)", WHOLE, id="binary"),
        pytest.param("sum by (queue) (a) or sum by (queue) (b)", WHOLE, id="or"),
        pytest.param("sum by (queue) (q) or vector(0)", WHOLE, id="or_vector"),
        pytest.param("scalar(sum(q))", WHOLE, id="scalar"),
        pytest.param("vector(scalar(q))", WHOLE, id="vector_of_scalar"),
        pytest.param("absent(q)", WHOLE, id="absent"),
    ],
)
def test_grouping_is_what_every_selector_carries_through(promql: str, grouping: frozenset[str] | None) -> None:
    """None: series by series; labels: by these; no labels: one age for the whole rule, never a wrong one."""
    inputs = derive_inputs(promql)
    assert inputs.gaps == ()
    assert inputs.grouping == grouping


@pytest.mark.parametrize(
    ("promql", "expected"),
    [
        pytest.param("sum(q) or vector(0)", True, id="or_vector"),
        pytest.param("vector(0) or sum(q)", True, id="vector_or"),
        pytest.param("sum by (queue) (q) or on () vector(0)", True, id="or_on_vector"),
        pytest.param("q or clamp_max(absent(q), 0)", True, id="or_absent"),
        pytest.param("sum(q) or 0 * absent(q)", True, id="or_calculated_absent"),
        pytest.param("absent(q)", True, id="absent"),
        pytest.param("absent_over_time(q[5m])", True, id="absent_over_time"),
        pytest.param("sum(q or vector(0))", True, id="inside_a_sum"),
        pytest.param("max_over_time((sum(q) or vector(0))[5m:1m])", True, id="inside_a_subquery"),
        pytest.param("-(sum(q) or vector(0)) * 2", True, id="inside_arithmetic"),
        pytest.param("(sum(a) or vector(0)) + (sum(b) or vector(0))", True, id="both_sides"),
        pytest.param("vector(1) unless q", True, id="unless"),
        pytest.param("(sum(a) or vector(0)) + sum(b)", False, id="one_side_of_an_addition"),
        pytest.param("sum(q) * 0", False, id="constant_factor"),
        pytest.param("time() - q", False, id="time"),
        pytest.param("sum(q) or sum(up * 0)", False, id="or_of_samples"),
        pytest.param("q and on () (vector(1) or absent(b))", False, id="condition_only"),
        pytest.param("q unless absent(b)", False, id="unless_absent"),
        pytest.param("sum(q) > scalar(absent(b))", False, id="bound_only"),
        pytest.param("clamp_max(q, 0)", False, id="clamp"),
        pytest.param("scalar(sum(q))", False, id="scalar"),
    ],
)
def test_sourceless_is_only_what_can_come_from_no_sample(promql: str, expected: bool) -> None:  # noqa: FBT001
    """It switches Stale off for a value that no sample stands behind, so it must not be said too often."""
    inputs = derive_inputs(promql)
    assert inputs.is_sourceless is expected
    if expected:
        assert inputs.grouping == WHOLE, "otherwise one group's own absence would pass as sourceless"


@pytest.mark.parametrize("promql", ["sum(job:q:sum)", "ALERTS", 'count(ALERTS{alertname="a"})'])
def test_recorded_series_are_noted(promql: str) -> None:
    """What rules write has the time of their evaluation: said, though a query can be built."""
    inputs = derive_inputs(promql)
    assert inputs.selectors
    assert len(inputs.notes) == 1


@pytest.mark.parametrize(
    ("promql", "expected"),
    [
        pytest.param('count(up{job="a"} == 1)', False, id="up"),
        pytest.param("sum(scrape_samples_scraped)", False, id="scrape"),
        pytest.param("sum(q) and on () (up == 1)", True, id="both"),
        pytest.param("sum(q)", True, id="own"),
    ],
)
def test_what_prometheus_writes_of_scrapes_is_fed_by_no_target(promql: str, expected: bool) -> None:  # noqa: FBT001
    """A dead target takes nothing from `up`: its 0 is the truth."""
    assert derive_inputs(promql).are_fed_by_targets is expected


_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
_LABELS = st.sampled_from(["a", "job", "_x1", "a.b", "é", "x y", 'q"', "a\\b", "__a"])
_MATCHERS = st.one_of(
    st.builds(Matcher, _LABELS, st.sampled_from(["=", "!="]), _TEXT),
    st.builds(
        Matcher,
        _LABELS,
        st.sampled_from(["=~", "!~"]),
        st.sampled_from([".*", "a|b", r"a\.b", 'x"y', "[0-9]+", "é+", "", "a\nb"]),
    ),
)
_NAMES = st.sampled_from(["q", "a:b", "_", "q1", "my.metric", "é", "Inf", "nan", "sum", "by", "1a", 'q"', "a\\b"])


def _list_matchers(selector: promql_parser.VectorSelector) -> tuple[str, list[Matcher]]:
    name = selector.name or ""
    matchers = []
    for matcher in selector.matchers.matchers:
        if matcher.name == "__name__":
            name = matcher.value
        else:
            operator = next(text for op, text in _OPERATORS if op == matcher.op)
            matchers.append(Matcher(matcher.name, operator, matcher.value))
    return name, matchers


@given(_NAMES, st.lists(_MATCHERS, max_size=4), st.lists(_MATCHERS, max_size=2))
def test_selector_text_parses_to_the_same_matchers(name: str, matchers: list[Matcher], extra: list[Matcher]) -> None:
    """Whatever stands in names and values, the text that guards send selects what the query selects."""
    text = Input(name, tuple(matchers)).format_selector(tuple(extra))
    parsed = promql_parser.parse(text)
    assert isinstance(parsed, promql_parser.VectorSelector)
    read_name, read = _list_matchers(parsed)
    assert read_name == name
    assert sorted(map(str, read)) == sorted(map(str, [*matchers, *extra]))


@pytest.mark.parametrize("name", ["inf", "NaN", "Inf"])
def test_number_as_a_name_stands_in_quotes(name: str) -> None:
    """A metric called like a number is no number."""
    assert promql_name(name) == ("", (Matcher("__name__", "=", name),))


@given(st.text(max_size=60))
def test_derive_inputs_never_raises_on_text(text: str) -> None:
    """Whatever stands in a configuration."""
    inputs = derive_inputs(text)
    assert bool(inputs.selectors) != bool(inputs.gaps)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    labels = st.sampled_from(["", " by (a)", " by (a, b)", " without (a)", ' by ("x.y")'])
    aggregations = st.sampled_from(["sum", "max", "count", "group", "topk", "quantile", "count_values"])
    functions = st.sampled_from(["ceil", "absent", "scalar", "vector", "timestamp", "histogram_quantile", "rate"])
    operators = st.sampled_from(["+", "/", ">", "> bool", "and", "or", "unless", "* on ()", "== ignoring (a)"])
    suffixes = st.sampled_from(["[5m]", "[5m:1m]", " offset 1m", " offset -1h", " @ 5", "[1h:] offset 9y"])
    return st.one_of(
        st.tuples(aggregations, labels, inner).map(lambda parts: f"{parts[0]}{parts[1]} ({parts[2]})"),
        st.tuples(aggregations, inner, inner).map(lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"),
        st.tuples(functions, inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(inner, operators, inner).map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        st.tuples(inner, suffixes).map("".join),
        inner.map(lambda text: f"-({text})"),
    )


PROMQL = st.recursive(
    st.sampled_from(["q", 'q{a="1"}', "r[5m]", '{"u.n"}', "up", "0", '"s"', "vector(0)", "time()", "j:q:sum"]),
    _grow,
    max_leaves=8,
)


@given(PROMQL)
def test_derive_inputs_never_raises_on_promql(promql: str) -> None:
    """Well-formed or nearly so: it derives, or says why not; a grouping never names what no selector could carry."""
    inputs = derive_inputs(promql)
    assert bool(inputs.selectors) != bool(inputs.gaps)
    if inputs.grouping is None:
        assert len(inputs.selectors) == 1
