"""Selection: which series a request may see and gets, and how it is told when there is none."""

import pytest

from adapter.domain.matchers import Matcher, format_matchers
from adapter.domain.rules import NamespaceLabel, NamespaceList, Rule
from adapter.domain.samples import Sample
from adapter.domain.selection import Selection, check_labels_are_names, map_selection, select_samples
from adapter.domain.selectors import parse_selector
from adapter.errors import NamespaceNotAllowed, NoMatch, UnmappedLabel
from tests.support.serving import NOW_S, rule

SAMPLES = (
    Sample({"namespace": "app", "queue": "a", "uri": "/v1/login"}, "5", NOW_S),
    Sample({"namespace": "app", "queue": "b"}, "7", NOW_S),
    Sample({"namespace": "other", "queue": "a"}, "9", NOW_S),
)


def ask(text: str, *, of: Rule | None = None, namespace: str = "app") -> Selection:
    """Return what a request selects of a rule."""
    return map_selection(parse_selector(text), text, rule=of or rule("q"), namespace=namespace)


def pick(text: str, *, of: Rule | None = None, namespace: str = "app") -> list[str]:
    """Return the values of the samples that a request selects."""
    selection = ask(text, of=of, namespace=namespace)
    mapped = of.labels.values() if of else ()
    return [sample.value for sample in select_samples(SAMPLES, selection, mapped=mapped)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ["5", "7", "9"]),
        ("queue=a", ["5", "9"]),
        ("queue in (a,b),namespace=app", ["5", "7"]),
        ("queue!=a", ["7"]),
        ("uri", ["5"]),
        ("!uri", ["7", "9"]),
        ("nosuch!=x", ["5", "7", "9"]),
        ("nosuch notin (x)", ["5", "7", "9"]),
        ("!nosuch", ["5", "7", "9"]),
    ],
)
def test_selection_has_kubernetes_semantics(text: str, values: list[str]) -> None:
    """Negative terms match series without the label; positive ones need it."""
    assert pick(text) == values


@pytest.mark.parametrize("text", ["topic=a", "topic in (a)", "topic", "topic=a,queue=a"])
def test_l9_needed_label_that_no_series_has_is_named_with_those_that_exist(text: str) -> None:
    """L9: a selector on a label that the result lacks is told so, never answered with the total."""
    with pytest.raises(NoMatch) as caught:
        pick(text)
    error = caught.value
    assert (error.wanted, error.missing_label, error.series) == (text, "topic", 3)
    assert error.existing == ("namespace", "queue", "uri")
    assert '"topic"' in error.describe()
    assert "namespace, queue, uri" in error.describe()


def test_l9_result_without_labels_says_none() -> None:
    """L9: `sum(...)` has no labels at all, and the message says that."""
    with pytest.raises(NoMatch) as caught:
        select_samples((Sample({}, "12", NOW_S),), ask("queue=a"))
    assert caught.value.missing_label == "queue"
    assert "labels that exist: none" in caught.value.describe()


def test_selection_of_no_series_with_the_label_present_names_no_missing_label() -> None:
    """A value that nobody has is NoMatch too, without blaming the label."""
    with pytest.raises(NoMatch) as caught:
        pick("queue=c")
    assert (caught.value.missing_label, caught.value.wanted) == ("", "queue=c")


@pytest.mark.parametrize("text", ["app.kubernetes.io/name=worker", "!app.kubernetes.io/name", "a-b!=c"])
def test_l1_key_that_is_no_label_is_refused(text: str) -> None:
    """L1: a key with a slash, dot or dash is refused by name, whatever its operator."""
    with pytest.raises(UnmappedLabel) as caught:
        pick(text)
    assert caught.value.key == parse_selector(text).requirements[0].key


def test_l1_key_is_served_where_the_rule_maps_it() -> None:
    """L1: `labels` maps the key to a Prometheus label."""
    assert pick("app.kubernetes.io/name=a", of=rule("q", labels={"app.kubernetes.io/name": "queue"})) == ["5", "9"]


def test_l1_mapping_to_a_label_that_no_series_has_is_no_match() -> None:
    """A label that the rule itself names is not called unmapped, even if only Prometheus 3 can have it."""
    with pytest.raises(NoMatch) as caught:
        pick("app=a", of=rule("q", labels={"app": "my.label"}))
    assert caught.value.missing_label == "my.label"


def test_utf8_label_is_served_where_the_result_has_it() -> None:
    """A key that is no legacy name is fine if a series has exactly that label."""
    sample = Sample({"my.label": "x"}, "1", NOW_S)
    assert select_samples((sample,), ask("my.label=x")) == [sample]
    check_labels_are_names(ask("my.label=x").selector, known=["my.label"])
    with pytest.raises(UnmappedLabel):
        check_labels_are_names(ask("my.label=x").selector)


def test_l2_alias_stands_for_the_value_kubernetes_refuses() -> None:
    """L2: `route=login` selects uri="/v1/login"; other values and keys pass unchanged."""
    aliased = rule("q", labels={"route": "uri"}, aliases={"route": {"login": "/v1/login"}})
    assert pick("route=login", of=aliased) == ["5"]
    assert pick("route in (login,other)", of=aliased) == ["5"]
    assert pick("route!=login", of=aliased) == ["7", "9"]
    assert pick("queue=b", of=rule("q", aliases={"route": {"b": "a"}})) == ["7"]
    matchers = ask("route=login", of=aliased).build_matchers()
    assert matchers == (Matcher("uri", "=", "/v1/login"),)


def test_ns1_global_rule_is_the_same_for_every_namespace() -> None:
    """NS1: without a namespace label the asking namespace adds nothing."""
    assert pick("", namespace="nobody") == ["5", "7", "9"]
    assert ask("").is_everything
    assert ask("").build_matchers() == ()


def test_ns1_namespaced_rule_selects_its_namespace_and_says_what_it_added() -> None:
    """NS1: the message of an empty selection shows `namespace="..."` as the rule's own addition."""
    namespaced = rule("q", namespace=NamespaceLabel("namespace"))
    assert pick("", of=namespaced) == ["5", "7"]
    assert pick("queue=a", of=namespaced, namespace="other") == ["9"]
    assert not ask("", of=namespaced).is_everything
    with pytest.raises(NoMatch) as caught:
        pick("queue=a", of=namespaced, namespace="nsq")
    assert 'queue=a with namespace="nsq" (added by the rule)' in caught.value.describe()
    with pytest.raises(NoMatch) as caught:
        pick("", of=namespaced, namespace="nsq")
    assert 'namespace="nsq"' in caught.value.describe()


def test_ns1_namespaced_rule_on_series_without_that_label_names_it() -> None:
    """A namespace label that the query aggregated away is the missing label, never everyone's total."""
    with pytest.raises(NoMatch) as caught:
        select_samples((Sample({}, "12", NOW_S),), ask("", of=rule("q", namespace=NamespaceLabel("namespace"))))
    assert caught.value.missing_label == "namespace"


def test_namespace_of_another_cannot_be_selected() -> None:
    """A selector on the namespace label narrows what the rule's own matcher leaves, and never widens it."""
    namespaced = rule("q", namespace=NamespaceLabel("namespace"))
    with pytest.raises(NoMatch):
        pick("namespace=other", of=namespaced)
    matchers = ask("namespace=other", of=namespaced).build_matchers()
    assert matchers is not None
    assert format_matchers(matchers) == 'namespace="other",namespace="app"'


def test_namespace_text_is_quoted_into_the_matcher() -> None:
    """A namespace is whatever the URL said: it cannot end the string it stands in."""
    selection = ask("", of=rule("q", namespace=NamespaceLabel("namespace")), namespace='x"} or vector(1) #')
    matchers = selection.build_matchers()
    assert matchers is not None
    assert format_matchers(matchers) == r'namespace="x\"} or vector(1) #"'


def test_ns6_namespace_that_is_not_listed_is_refused() -> None:
    """NS6: a rule with a list serves those namespaces only, in their exact spelling."""
    listed = rule("q", namespace=NamespaceList(frozenset({"a", "b"})))
    assert pick("queue=b", of=listed, namespace="a") == ["7"]
    for other in ("c", "A", "", "a/b"):
        with pytest.raises(NamespaceNotAllowed) as caught:
            pick("", of=listed, namespace=other)
        assert caught.value.namespace == other
