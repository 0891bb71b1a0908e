"""Matchers: quoting that any PromQL reader undoes, and selectors that mean the same in PromQL and in memory."""

import re
from collections.abc import Mapping

import promql_parser
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.domain.matchers import Matcher, build_matchers, format_matchers, is_label_name, quote_regex, quote_string
from adapter.domain.selectors import Operator, Requirement, Selector, parse_selector

NASTY = "a\"b\\c\nd\re\tf\0g\x7fh\ufffdi`j'k$matchers{}\u2028l\U0001f600"


def does_match(matcher: Matcher, labels: Mapping[str, str]) -> bool:
    """Evaluate one matcher as Prometheus does: an absent label is an empty one, regular expressions are anchored."""
    value = labels.get(matcher.label, "")
    match matcher.operator:
        case "=":
            return value == matcher.value
        case "!=":
            return value != matcher.value
        case "=~":
            return re.fullmatch(matcher.value, value, re.DOTALL) is not None
        case _:
            return re.fullmatch(matcher.value, value, re.DOTALL) is None


def select(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Tell whether the PromQL for *selector* would select *labels*."""
    matchers = build_matchers(selector.requirements)
    return matchers is not None and all(does_match(matcher, labels) for matcher in matchers)


@given(st.text(max_size=60))
@example(NASTY)
@example("\\")
@example('\\"')
def test_quote_string_is_undone_by_the_parser(text: str) -> None:
    """Any text comes back from PromQL exactly, and its literal stays on one line."""
    quoted = quote_string(text)
    assert promql_parser.parse(quoted).val == text
    assert "\n" not in quoted
    assert len(quoted.splitlines()) == 1


@pytest.mark.parametrize("char", ["\n", "\0", "\ufffd", "\x85"])
def test_quote_string_leaves_nothing_raw_that_the_real_lexer_refuses(char: str) -> None:
    """Prometheus' lexer ends or refuses a string at a raw newline and at U+FFFD, though this parser takes them."""
    assert char not in quote_string(f"a{char}b")


@given(st.text(max_size=30), st.text(max_size=30))
@example("orders.v1", "ordersXv1")
@example("a|b", "a")
@example("a", "a\n")
def test_quote_regex_matches_its_own_text_and_no_other(text: str, other: str) -> None:
    """An escaped value is no pattern."""
    pattern = quote_regex(text)
    assert re.fullmatch(pattern, text)
    assert bool(re.fullmatch(pattern, other)) == (text == other)


def test_quote_regex_escapes_what_re2_gives_a_meaning() -> None:
    """All of RE2's metacharacters, and nothing that RE2 would take for a class when escaped."""
    assert quote_regex(r"\.+*?()|[]{}^$") == r"\\\.\+\*\?\(\)\|\[\]\{\}\^\$"
    assert quote_regex("aA0_-/ dwsbé") == "aA0_-/ dwsbé"


@pytest.mark.parametrize(
    ("text", "promql"),
    [
        pytest.param("queue in (orders.v1)", 'queue="orders.v1"', id="L3"),
        pytest.param("queue in (a.b,c)", r'queue=~"a\\.b|c"', id="L4"),
        pytest.param("queue", 'queue!=""', id="L6-exists"),
        pytest.param("!queue", 'queue=""', id="L6-not-exists"),
        pytest.param("queue notin (orders.v1)", 'queue!="orders.v1"', id="notin-one"),
        pytest.param("queue notin (a.b,c)", r'queue!~"a\\.b|c"', id="notin-several"),
        pytest.param("queue=a,vhost!=b", 'queue="a",vhost!="b"', id="conjunction"),
        pytest.param("queue==a", 'queue="a"', id="double-equals"),
        pytest.param("queue!=", "", id="not-empty-forbids-nothing"),
        pytest.param("queue in (a,)", 'queue="a"', id="empty-among-values"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_selector_becomes_matchers(text: str, promql: str) -> None:
    """L3, L4, L6: each operator has one PromQL, and values stay values."""
    matchers = build_matchers(parse_selector(text).requirements)
    assert matchers is not None
    assert format_matchers(matchers) == promql


@pytest.mark.parametrize("text", ["queue=", "queue in ()", "a=b,queue in (,)"])
def test_selector_for_an_empty_value_has_no_matchers(text: str) -> None:
    """Prometheus has no empty labels: what requires one selects nothing, and never everything."""
    assert build_matchers(parse_selector(text).requirements) is None


def test_matcher_quotes_a_label_that_is_no_legacy_name() -> None:
    """UTF-8 label names stand in quotes, as Prometheus 3 takes them."""
    assert str(Matcher("my.label", "=", "x")) == '"my.label"="x"'
    assert not is_label_name("a\n")
    assert not is_label_name("ä")
    assert is_label_name("_a1")


names = st.sampled_from(["queue", "vhost", "q"])
values = st.sampled_from(["a", "b", "a.b", "axb", "a|b", "", "(", "^a$", "a\n", "é"])
operators = st.sampled_from(list(Operator))


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    """Draw a requirement whose values are as wild as aliases may make them."""
    operator = draw(operators)
    if operator in (Operator.EXISTS, Operator.NOT_EXISTS):
        return Requirement(draw(names), operator)
    size = {"min_size": 1, "max_size": 3 if operator in (Operator.IN, Operator.NOT_IN) else 1}
    return Requirement(draw(names), operator, tuple(sorted(draw(st.sets(values | st.text(max_size=3), **size)))))


label_sets = st.dictionaries(names, values.filter(bool) | st.text(min_size=1, max_size=3), max_size=3)


@given(st.lists(requirements(), max_size=3), label_sets)
def test_matchers_select_what_the_selector_matches_in_memory(terms: list[Requirement], labels: dict[str, str]) -> None:
    """Pushdown and snapshot agree: the PromQL selects a series exactly if Kubernetes' semantics do."""
    selector = Selector(tuple(terms))
    assert select(selector, labels) == selector.matches(labels)


@given(st.lists(requirements(), min_size=1, max_size=3), st.data())
def test_matchers_select_what_the_selector_matches_for_its_own_values(
    terms: list[Requirement], data: st.DataObject
) -> None:
    """The same, for series made of the selector's own values, so that most of them match."""
    wanted = {t.key: data.draw(st.sampled_from(t.values)) for t in terms if t.values}
    labels = {key: value for key, value in wanted.items() if value}
    selector = Selector(tuple(terms))
    assert select(selector, labels) == selector.matches(labels)
