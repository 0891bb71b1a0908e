"""Label selectors: compared with the real Kubernetes library (tests/vectors), a naive model, and themselves."""

import json
import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.domain.selectors import Operator, Requirement, Selector, needs_label, parse_selector
from adapter.errors import BadSelector

VECTORS = Path(__file__).parents[1] / "vectors" / "selectors.json"
COMPARISONS = ("gt", "lt")
# Up to this many requirements Go's sort keeps the order of equal keys; above it does not.
GO_SORT_IS_STABLE_UP_TO = 12


def find_kind(detail: str) -> str:
    """Return the vectors' word for what *detail* complains about."""
    if "a NUL character" in detail:
        return "nul"
    if "not supported for external metrics" in detail:
        return "comparison"
    for start, kind in (("at ", "syntax"), ("label key ", "key"), ("label value ", "value")):
        if detail.startswith(start):
            return kind
    return detail


def find_outcome(text: str) -> Selector | BadSelector:
    """Return what parse_selector returns or raises, where either will do."""
    try:
        return parse_selector(text)
    except BadSelector as error:
        return error


def observe(text: str, label_sets: list[dict[str, str]]) -> list[object]:
    """Return what parse_selector makes of *text*, in the form of the vectors."""
    selector = find_outcome(text)
    if isinstance(selector, BadSelector):
        return [text, find_kind(selector.detail)]
    terms = [[term.key, str(term.operator), list(term.values)] for term in selector.requirements]
    return [text, "", str(selector), terms, "".join("01"[selector.matches(labels)] for labels in label_sets)]


def expect(case: list[object]) -> list[object]:
    """Return what we promise where Kubernetes answers *case*: the same, but for NUL, `>` and `<`."""
    text, kind = case[:2]
    assert isinstance(text, str)
    if "\0" in text:
        return [text, "nul"]
    if kind == "":
        terms = case[3]
        assert isinstance(terms, list)
        if any(operator in COMPARISONS for _, operator, _ in terms):
            return [text, "comparison"]
    return case


def forget_order_of_equal_keys(case: list[object]) -> list[object]:
    """Return *case* without what depends on the order of requirements, where Go leaves that open."""
    if case[1] or not isinstance(case[3], list) or len(case[3]) <= GO_SORT_IS_STABLE_UP_TO:
        return case
    return [case[0], "", len(str(case[2])), sorted(case[3]), case[4]]


def test_vectors_agree_with_the_kubernetes_library() -> None:
    """Every text is refused for the same reason, or means the same, prints the same and matches the same labels."""
    vectors = json.loads(VECTORS.read_text("utf-8"))
    cases, label_sets = vectors["cases"], vectors["labelSets"]
    wrong = []
    for case in cases:
        wanted = forget_order_of_equal_keys(expect(case))
        got = forget_order_of_equal_keys(observe(case[0], label_sets))
        if got != wanted:
            wrong.append(f"expected {wanted}\n     got {got}")
    refused = sum(bool(case[1]) for case in cases)
    assert len(cases) >= 3000
    assert min(refused, len(cases) - refused) >= 1000
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        pytest.param("prio>3", '">"', id="gt"),
        pytest.param("prio < 3", '"<"', id="lt"),
        pytest.param("queue=a,prio>3,!x", '">"', id="among others"),
        pytest.param("prio>9223372036854775807", '">"', id="largest integer"),
    ],
)
def test_l8_comparison_is_refused_as_not_supported(text: str, operator: str) -> None:
    """A well-formed `>` or `<` raises BadSelector, which says that external metrics do not take it."""
    with pytest.raises(BadSelector) as caught:
        parse_selector(text)
    assert caught.value.selector == text
    assert "not supported for external metrics" in caught.value.detail
    assert operator in caught.value.detail
    assert '"prio"' in caught.value.detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("prio>3,queue in (a", 'at the end: expected "," or ")"', id="rest malformed"),
        pytest.param("prio>x", 'label value "x" of "prio" must be a 64-bit integer after > or <', id="not an integer"),
        pytest.param("prio>", 'label value "" of "prio" must be a 64-bit integer after > or <', id="nothing"),
        pytest.param("prio>=3", 'at character 6: expected a label value, found "="', id="no such operator"),
        pytest.param(
            "prio>9223372036854775808",
            'label value "9223372036854775808" of "prio" must be a 64-bit integer after > or <',
            id="beyond int64",
        ),
    ],
)
def test_l8_malformed_comparison_is_refused_for_what_is_wrong_with_it(text: str, detail: str) -> None:
    """What Kubernetes would not parse is explained as such, not as an unsupported operator."""
    with pytest.raises(BadSelector) as caught:
        parse_selector(text)
    assert caught.value.detail == detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("queue in (a", 'at the end: expected "," or ")"', id="the case"),
        pytest.param("queue in a", 'at character 10: expected "(" before the values, found "a"', id="no parenthesis"),
        pytest.param("queue in (a b)", 'at character 13: expected "," or ")", found "b"', id="no comma"),
        pytest.param("queue in (a,", 'at the end: expected a label value, "," or ")"', id="open list"),
        pytest.param(",a", 'at character 1: expected a label key or "!", found ","', id="leading comma"),
        pytest.param("a,", 'at the end: expected a label key or "!" after ","', id="trailing comma"),
        pytest.param("a,,b", 'at character 3: expected a label key or "!" after ",", found ","', id="double comma"),
        pytest.param("!", 'at the end: expected a label key after "!"', id="bare bang"),
        pytest.param("!a=b", 'at character 3: expected "," or the end, found "="', id="negated equality"),
        pytest.param(
            "a b",
            'at character 3: expected one of = == != in notin after the key (or "," or the end), found "b"',
            id="no operator",
        ),
        pytest.param("a=b=c", 'at character 4: expected "," or the end, found "="', id="two values"),
        pytest.param(
            "queue='a'",
            'label value "\'a\'" of "queue" is quoted; selectors take names and values without quotes',
            id="quoted value",
        ),
        pytest.param(
            "uri=/v1/login",
            'label value "/v1/login" of "uri" may hold only letters, digits, "-", "_" and ".", '
            "and must start and end with a letter or digit",
            id="slash in a value",
        ),
        pytest.param(
            f"queue={'q' * 70}",
            f'label value "{"q" * 39}…" of "queue" has 70 characters where Kubernetes allows 63',
            id="long value",
        ),
        pytest.param("/a", 'label key "/a" has nothing before the "/"', id="no prefix"),
        pytest.param("a/", 'label key "a/" has nothing after the "/"', id="no name"),
        pytest.param(
            "A/b",
            'label key "A/b" has a prefix that is not a lower-case DNS name such as example.com',
            id="upper-case prefix",
        ),
        pytest.param(
            f"{'p' * 254}/a",
            f'label key "{"p" * 39}…" has a prefix of 254 characters, more than 253',
            id="long prefix",
        ),
        pytest.param(
            "a\u2028\ud800=b",
            r'label key "a\u2028\ud800" may hold only letters, digits, "-", "_" and ".", '
            "and must start and end with a letter or digit",
            id="unprintable",
        ),
        # Kubernetes drops what follows a lone NUL; the wider sum would be a lie.
        pytest.param("a=b \0,c=d", "at character 5: a NUL character is not allowed", id="nul"),
    ],
)
def test_l14_malformed_selector_is_refused_with_place_and_expectation(text: str, detail: str) -> None:
    """A malformed selector raises BadSelector with the text, where it went wrong and what was expected there."""
    with pytest.raises(BadSelector) as caught:
        parse_selector(text)
    assert (caught.value.selector, caught.value.detail) == (text, detail)


@pytest.mark.parametrize("text", [pytest.param("", id="empty"), pytest.param(" \t\r\n", id="blank")])
def test_empty_selector_matches_everything(text: str) -> None:
    """No requirement is no restriction."""
    selector = parse_selector(text)
    assert selector.is_empty
    assert selector.matches({})
    assert str(selector) == ""


@pytest.mark.parametrize(
    ("text", "is_needed", "matches_absent", "matches_empty", "matches_b"),
    [
        pytest.param("a=b", True, False, False, True, id="equals"),
        pytest.param("a==b", True, False, False, True, id="double equals"),
        pytest.param("a!=b", False, True, True, False, id="not equals"),
        pytest.param("a in (b,c)", True, False, False, True, id="in"),
        pytest.param("a notin (b,c)", False, True, True, False, id="notin"),
        pytest.param("a", True, False, True, True, id="exists"),
        pytest.param("!a", False, True, False, False, id="not exists"),
        pytest.param("a=", True, False, True, False, id="equals empty"),
        pytest.param("a!=", False, True, False, True, id="not equals empty"),
        pytest.param("a in ()", True, False, True, False, id="in nothing is in the empty value"),
    ],
)
def test_requirement_treats_absent_and_empty_labels_as_kubernetes_does(
    *, text: str, is_needed: bool, matches_absent: bool, matches_empty: bool, matches_b: bool
) -> None:
    """An absent label satisfies only `!=`, `notin` and `!key`; the empty value is a value."""
    selector = parse_selector(text)
    (requirement,) = selector.requirements
    assert needs_label(requirement) is is_needed
    assert not selector.is_empty
    got = [selector.matches(labels) for labels in ({"x": "b"}, {"a": ""}, {"a": "b"})]
    assert got == [matches_absent, matches_empty, matches_b]


def test_equal_meaning_gives_an_equal_selector() -> None:
    """Blanks, the order of keys and values and repeated values do not count: a selector can be a cache key."""
    first = parse_selector("b in (y,x,y) , a=1")
    second = parse_selector("a=1,b in(x,y)")
    assert first == second
    assert hash(first) == hash(second)
    assert str(first) == "a=1,b in (x,y)"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" " * 1_000_000, id="blanks"),
        pytest.param("a" + " " * 1_000_000 + "b", id="inner blanks"),
        pytest.param("a" * 1_000_000, id="one key"),
        pytest.param("a=" + "a" * 1_000_000 + "-", id="one value"),
        pytest.param("a" * 1_000_000 + "/b", id="one prefix"),
        pytest.param("a." * 500_000 + "/b", id="one dotted prefix"),
        pytest.param("a/" * 500_000, id="slashes"),
        pytest.param("a," * 500_000 + "a", id="many requirements"),
        pytest.param("a in (" + "b," * 500_000 + "(", id="many values"),
        pytest.param("!" * 1_000_000, id="bangs"),
        pytest.param("a" + "=" * 1_000_000, id="equals signs"),
    ],
)
def test_long_selector_takes_linear_time(text: str) -> None:
    """A megabyte of anything is parsed or refused at once: squared, it would take hours."""
    outcome = find_outcome(text)
    assert isinstance(outcome, Selector) or len(outcome.detail) < 200


name_chars = string.ascii_letters + string.digits
inner_chars = name_chars + "-_."
names = st.one_of(
    st.sampled_from(["a", "b", "in", "notin", "queue"]),
    st.builds(
        lambda first, inner, last: first + inner + last,
        st.sampled_from(name_chars),
        st.text(inner_chars, max_size=61),
        st.sampled_from(name_chars),
    ),
)
prefixes = st.sampled_from(["", "", "app.kubernetes.io/", "e/", f"{'p' * 253}/"])
label_keys = st.builds(lambda prefix, name: prefix + name, prefixes, names)
label_values = st.just("") | names
blanks = st.text(" \t\r\n", max_size=2)


@st.composite
def spelled_requirements(draw: st.DrawFn) -> tuple[str, str, Operator, frozenset[str]]:
    """Return one of the many spellings of a requirement, and what it means."""
    key, operator = draw(label_keys), draw(st.sampled_from(Operator))
    before, between, inside, after = (draw(blanks) for _ in range(4))
    match operator:
        case Operator.EXISTS:
            return f"{before}{key}{after}", key, operator, frozenset()
        case Operator.NOT_EXISTS:
            return f"{before}!{between}{key}{after}", key, operator, frozenset()
        case Operator.IN | Operator.NOT_IN:
            values = draw(st.lists(label_values, max_size=4))
            listed = ",".join(f"{inside}{value}{between}" for value in values)
            text = f"{before}{key}{between} {operator}{inside}({listed}){after}"
            return text, key, operator, frozenset(values or [""])
        case _:
            value = draw(label_values)
            return f"{before}{key}{between}{operator}{inside}{value}{after}", key, operator, frozenset([value])


def naively_matches(key: str, operator: Operator, values: frozenset[str], labels: Mapping[str, str]) -> bool:
    """Decide by sets alone: the label's values, none or one, against the requirement's."""
    found = {value for name, value in labels.items() if name == key}
    return {
        Operator.EXISTS: bool(found),
        Operator.NOT_EXISTS: not found,
        Operator.EQUALS: bool(found & values),
        Operator.DOUBLE_EQUALS: bool(found & values),
        Operator.IN: bool(found & values),
        Operator.NOT_EQUALS: not found & values,
        Operator.NOT_IN: not found & values,
    }[operator]


@given(st.lists(spelled_requirements(), max_size=5), st.data())
def test_spelled_selector_means_and_matches_what_a_naive_model_says(
    spelled: list[tuple[str, str, Operator, frozenset[str]]], data: st.DataObject
) -> None:
    """However it is spelled, the requirements are those written, and they match as sets would."""
    selector = parse_selector(",".join(text for text, *_ in spelled))
    wanted = [Requirement(key, operator, tuple(sorted(values))) for _, key, operator, values in spelled]
    assert list(selector.requirements) == sorted(wanted, key=lambda term: term.key)
    assert parse_selector(str(selector)) == selector

    keys = st.sampled_from(["a", "b", *(key for _, key, *_ in spelled)])
    values = st.sampled_from(["", "a", *(value for *_, all_values in spelled for value in all_values)])
    labels = data.draw(st.dictionaries(keys, values, max_size=5))
    assert selector.matches(labels) == all(
        naively_matches(key, operator, wanted_values, labels) for _, key, operator, wanted_values in spelled
    )


grammar_texts = st.lists(
    st.sampled_from(
        ["=", "==", "!=", "!", "(", ")", ",", "<", ">", " ", "\n", "in", "notin", "a", "b/c", "1", "é", "\0"]
    )
).map("".join)


@given(st.text() | st.text(st.characters()) | grammar_texts)
@example("\ud800")
@example("a in (\ud800)")
def test_any_text_gives_a_stable_selector_or_bad_selector(text: str) -> None:
    """No text raises anything but BadSelector, whose detail can be sent; what parses survives being printed."""
    outcome = find_outcome(text)
    if isinstance(outcome, BadSelector):
        assert outcome.selector == text
        assert outcome.detail.encode()
    else:
        assert parse_selector(str(outcome)) == outcome


def test_selector_without_requirements_is_the_default() -> None:
    """A caller without a selector has one that matches everything."""
    assert Selector() == parse_selector("")
