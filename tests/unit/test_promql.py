"""Query templates: where placeholders stand, and that a rendering changes nothing but them."""

import re

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.matchers import Matcher
from adapter.domain.promql import BadTemplate, parse_shape, parse_template, walk_expression

A = Matcher("queue", "=", "a")
B = Matcher("vhost", "=~", "x|y")


def list_matchers(promql: str) -> list[list[tuple[str, str, str]]]:
    """Return the (label, operator, value) triples of every selector, as the parser reads them."""
    operators = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
    return [
        [(m.name, operators[str(m.op).removeprefix("MatchOp.")], m.value) for m in node.matchers.matchers]
        for node in walk_expression(promql_parser.parse(promql))
        if isinstance(node, promql_parser.VectorSelector)
    ]


@pytest.mark.parametrize(
    ("query", "filled", "bare"),
    [
        pytest.param("q{$matchers}", 'q{queue="a"}', "q{}", id="alone"),
        pytest.param('q{$matchers,x="1"}', 'q{queue="a",x="1"}', 'q{x="1"}', id="L10-first"),
        pytest.param('q{x="1",$matchers}', 'q{x="1",queue="a"}', 'q{x="1"}', id="last"),
        pytest.param('q{x="1",$matchers,y="2"}', 'q{x="1",queue="a",y="2"}', 'q{x="1",y="2"}', id="between"),
        pytest.param('q{x="1", $matchers }', 'q{x="1", queue="a" }', 'q{x="1"  }', id="blanks"),
        pytest.param('q{\n  $matchers\n  ,\n  x="1"\n}', 'q{\n  queue="a"\n  ,\n  x="1"\n}', None, id="newlines"),
        pytest.param('q{x="1" , # why\n $matchers}', 'q{x="1" , # why\n queue="a"}', None, id="comment-before"),
        pytest.param('q{$matchers # why, so\n , x="1"}', 'q{queue="a" # why, so\n , x="1"}', None, id="comment-after"),
        pytest.param('q{x="1", # a, b\n # c,\n $matchers}', None, None, id="commas-in-comments"),
        pytest.param("q{$matchers,}", 'q{queue="a",}', "q{}", id="trailing-comma"),
        pytest.param('q{x="1",$matchers,}', 'q{x="1",queue="a",}', 'q{x="1",}', id="trailing-comma-last"),
        pytest.param('q{x="},$matchers",$matchers}', 'q{x="},$matchers",queue="a"}', None, id="brace-in-string"),
    ],
)
def test_template_leaves_valid_promql_wherever_the_comma_stands(
    query: str, filled: str | None, bare: str | None
) -> None:
    """With matchers or without, the query parses, and all that it had of its own is still there."""
    template = parse_template(query)
    with_matchers, without = template.render(matchers=(A,)), template.render()
    if filled is not None:
        assert with_matchers == filled
    if bare is not None:
        assert without == bare
    own = [m for m in list_matchers(with_matchers)[0] if m != ("queue", "=", "a")]
    assert sorted(list_matchers(with_matchers)[0]) == sorted([*own, ("queue", "=", "a")])
    assert list_matchers(without)[0] == own


@pytest.mark.parametrize(
    "query",
    [
        pytest.param('q{x="$matchers"}', id="double-quoted"),
        pytest.param("q{x='$namespace'}", id="single-quoted"),
        pytest.param("q{x=`$matchers\\`}", id="backticks-know-no-escape"),
        pytest.param(r'q{x="\"{ $matchers }"}', id="escaped-quote"),
        pytest.param(r'q{x="\\",y="$namespace"}', id="escaped-backslash"),
        pytest.param("q # $matchers and $namespace\n", id="comment"),
        pytest.param("q # it's $matchers", id="quote-in-comment"),
        pytest.param("q{x=\"it's #1\",y='$matchers'}", id="hash-in-string"),
        pytest.param("q{$matchersOld}", id="longer-word"),
        pytest.param("q{$namespace_x}", id="longer-word-underscore"),
        pytest.param('q{x="$matchers', id="unterminated"),
    ],
)
def test_template_takes_placeholder_as_text_where_it_is_text(query: str) -> None:
    """In strings, comments and longer words a placeholder is what it looks like: text."""
    template = parse_template(query)
    assert not template.has_matchers
    assert not template.has_namespace
    assert template.render(matchers=(A,), namespace="team-a") == query


@pytest.mark.parametrize(
    "query",
    ["$matchers", "q $matchers", 'q{x="1"}[$matchers]', "sum by ($matchers) (q)", '"{" + $matchers', "# {\n$matchers"],
)
def test_template_refuses_matchers_outside_of_braces(query: str) -> None:
    """A selector's terms can stand between braces only; anywhere else is a mistake to be told at load."""
    with pytest.raises(BadTemplate, match="between the braces"):
        parse_template(query)


def test_template_replaces_every_occurrence_z5() -> None:
    """Z5: with two placeholders, both are replaced, in the filled rendering and in the bare one."""
    template = parse_template("q{$matchers} or clamp_max(absent(q{$matchers}),0)")
    assert template.render(matchers=(A,)) == 'q{queue="a"} or clamp_max(absent(q{queue="a"}),0)'
    assert template.render() == "q{} or clamp_max(absent(q{}),0)"


def test_template_drops_each_comma_once_when_placeholders_share_one() -> None:
    """Two placeholders in one selector without matchers leave a selector that parses."""
    template = parse_template('q{x="1",$matchers,$matchers}')
    assert list_matchers(template.render()) == [[("x", "=", "1")]]


def test_template_quotes_the_namespace_wherever_it_is_asked() -> None:
    """`$namespace` becomes a PromQL string, also outside of braces, with everything in it escaped."""
    template = parse_template('q{ns=$namespace} * on() label_replace(w, "a", $namespace, "", "")')
    assert template.has_namespace
    assert not template.has_matchers
    rendered = template.render(namespace='a"\\\n')
    assert list_matchers(rendered)[0] == [("ns", "=", 'a"\\\n')]
    assert rendered.count(r'"a\"\\\n"') == 2


def test_template_never_reads_what_it_put_in() -> None:
    """A namespace or value that looks like a placeholder stays text."""
    template = parse_template("q{ns=$namespace,$matchers}")
    rendered = template.render(matchers=(Matcher("x", "=", "$namespace"),), namespace="$matchers")
    assert list_matchers(rendered) == [[("ns", "=", "$matchers"), ("x", "=", "$namespace")]]


def test_template_keeps_lines_and_comments_of_field_configuration_3() -> None:
    """Field configuration 3: newlines and the comment survive, the leading placeholder's comma goes."""
    query = (
        "# smooth, floor, take the worst\n"
        "topk(1, sum by (namespace, group) (clamp_min(\n"
        '  avg_over_time(kafka_lag{$matchers, group=~"g1|g2"}[1m]), 0)))\n'
    )
    template = parse_template(query)
    assert template.render() == query.replace("$matchers,", "")
    assert template.render(matchers=(A,)) == query.replace("$matchers", 'queue="a"')
    assert list_matchers(template.render()) == [[("group", "=~", "g1|g2")]]


def test_l10_empty_matcher_list_leaves_no_comma() -> None:
    """L10: a rule asked without a selector renders PromQL that parses."""
    assert parse_template('q{$matchers,vhost="/"}').render() == 'q{vhost="/"}'


label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True) | st.text(min_size=1, max_size=8).filter(
    lambda text: text != "__name__"
)
matchers_ = st.lists(
    st.builds(Matcher, label_names, st.sampled_from(["=", "!="]), st.text(max_size=20)), min_size=1, max_size=4
)
frames = st.sampled_from(
    [
        "q{$matchers}",
        'q{own="1",$matchers}',
        'q{$matchers,own="1"}',
        'sum by (a) (rate(q{ $matchers , own="1" }[5m])) # $matchers',
        'q{$matchers} / ignoring(x) q{own="$matchers", # c\n$matchers}',
    ]
)


@given(frames, matchers_)
def test_rendering_reads_back_as_exactly_the_matchers(frame: str, matchers: list[Matcher]) -> None:
    """Whatever the labels and values, a parser finds those matchers in each placeholder's place."""
    marked = parse_template(frame).render(matchers=(Matcher("mark", "=", "here"),))
    rendered = parse_template(frame).render(matchers=matchers)
    wanted = [(m.label, m.operator, m.value) for m in matchers]
    expected = [
        [part for triple in selector for part in (wanted if triple == ("mark", "=", "here") else [triple])]
        for selector in list_matchers(marked)
    ]
    assert list_matchers(rendered) == expected
    assert rendered.count("\n") == frame.count("\n")


@given(st.text(alphabet="q{}$matchersnp,\"'`\\#\n =a1()", max_size=40))
def test_template_rendering_without_placeholders_gives_the_text_back(text: str) -> None:
    """What holds no placeholder is sent as it was written, character by character."""
    try:
        template = parse_template(text)
    except BadTemplate:
        assert "$matchers" in text
        return
    if not template.has_matchers and not template.has_namespace:
        assert template.render(matchers=(A, B), namespace="n") == text
    assert len(re.findall(r"\$matchers", text)) >= template.has_matchers


@pytest.mark.parametrize(
    ("query", "result_type"),
    [
        ("sum(q)", "vector"),
        ("scalar(sum(q))", "scalar"),
        ("1 + 2", "scalar"),
        ("-(1)", "scalar"),
        ("q > bool 0", "vector"),
        ("1 + q", "vector"),
        ("time()", "scalar"),
        ("q[5m]", "matrix"),
        ("q[5m:1m]", "matrix"),
        ('"42"', "string"),
        ("(q[5m])", "matrix"),
        ("q{$matchers}", "vector"),
    ],
)
def test_shape_names_the_result_type_before_anything_is_asked(query: str, result_type: str) -> None:
    """`check` can tell what a query returns."""
    assert parse_shape(parse_template(query)).result_type == result_type


def test_shape_keeps_the_parsers_problem_of_field_configuration_5() -> None:
    """Field configuration 5: PromQL that cannot be parsed is a finding with a text, no exception."""
    shape = parse_shape(parse_template('sum(rate(sqs_visible{queue_name="jobs.fifo"}))'))
    assert shape.result_type is None
    assert shape.problem
