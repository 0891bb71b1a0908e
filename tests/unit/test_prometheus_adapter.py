"""prometheus-adapter's external rules: names, namespaces, filters and templates as that adapter has them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from adapter.config.load import Loaded, load_configuration
from adapter.config.problems import ConfigurationError, Kind, Problem
from adapter.domain.matchers import Matcher
from adapter.domain.rules import AnyNamespace, NamespaceLabel, Rule

BACKEND = {"url": "http://prometheus:9090"}
RULE: dict[str, Any] = {
    "seriesQuery": "q",
    "resources": {"namespaced": False},
    "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>})",
}
MATCHERS = [Matcher("queue", "=", "orders")]


def load_rules(folder: Path, *rules: object, **others: object) -> Loaded:
    """Load *rules* as externalRules."""
    path = folder / "depthgauge.yaml"
    path.write_text(yaml.safe_dump({"prometheus": BACKEND, "externalRules": list(rules), **others}))
    return load_configuration(path)


def load_one(folder: Path, **changed: object) -> Rule:
    """Return what RULE with the keys of *changed* becomes."""
    (rule,) = load_rules(folder, RULE | changed).configuration.rules.values()
    return rule


def refuse_one(folder: Path, **changed: object) -> Problem:
    """Return the only problem of RULE with the keys of *changed*."""
    with pytest.raises(ConfigurationError) as caught:
        load_rules(folder, RULE | changed)
    (problem,) = caught.value.problems
    assert problem.path[:2] == ("externalRules", 0)
    return problem


@pytest.mark.parametrize(
    ("series_query", "name", "expected"),
    [
        pytest.param("q_total", {}, "q_total", id="bare"),
        pytest.param('q_total{a="}"}', {}, "q_total", id="matchers"),
        pytest.param('{__name__="q_total"}', {}, "q_total", id="name-label"),
        pytest.param('{__name__=~"^q_total$"}', {}, "q_total", id="anchored-literal"),
        pytest.param("job:q:sum", {}, "job:q:sum", id="recorded"),
        pytest.param("q_total", {"matches": "^(.*)_total$"}, "q", id="one-group-is-the-name"),
        pytest.param("q_total", {"matches": "total"}, "total", id="no-group-is-what-matched"),
        pytest.param("q_total", {"matches": "^(.*)_total$", "as": "${1}_per_second"}, "q_per_second", id="braces"),
        pytest.param("q_total", {"matches": "^(.*)_total$", "as": "$1-x"}, "q-x", id="reference-ends-at-dash"),
        pytest.param("q_total", {"matches": "^(?P<base>.*)_total$", "as": "$base"}, "q", id="named-group"),
        pytest.param("q_total", {"as": "a$$b"}, "a$b", id="dollar"),
        pytest.param("q_total", {"as": "depth.v1-x"}, "depth.v1-x", id="dots-and-dashes"),
        pytest.param("q_total", {"matches": "^(q|r)_(.*)$", "as": "$2"}, "total", id="second-group"),
    ],
)
def test_name_is_made_of_the_series_as_go_does(
    tmp_path: Path, series_query: str, name: dict[str, str], expected: str
) -> None:
    """The metric's name follows from seriesQuery, matches and as."""
    assert load_one(tmp_path, seriesQuery=series_query, name=name).name == expected


@pytest.mark.parametrize(
    ("changed", "below", "says"),
    [
        pytest.param({"name": {"matches": "^(.*)$", "as": "$1_x"}}, ("name", "as"), "did you mean ${1}_x?", id="trap"),
        pytest.param({"name": {"as": "$1"}}, ("name", "as"), 'no group "1"', id="no-such-group"),
        pytest.param({"name": {"matches": "(a)|(q)"}}, ("name", "as"), "several groups", id="ambiguous"),
        pytest.param({"name": {"matches": "^r"}}, ("name", "matches"), "does not match", id="never"),
        pytest.param({"name": {"matches": "("}}, ("name", "matches"), "not a regular expression", id="regex"),
        pytest.param({"name": {"matches": "q(?=x)"}}, ("name", "matches"), "not in Go's syntax", id="look-ahead"),
        pytest.param({"name": {"matches": "q{99999999999}"}}, ("name", "matches"), "not a regular", id="overflow"),
        pytest.param({"name": {"as": "a/b"}}, ("name", "as"), "one segment", id="slash"),
        pytest.param({"name": {"matches": "q(x?)", "as": "$1"}}, ("name", "as"), "must not be empty", id="empty"),
        pytest.param({"seriesQuery": "sum(q)"}, ("seriesQuery",), "expected a series", id="not-a-selector"),
        pytest.param({"seriesQuery": "q offset 5m"}, ("seriesQuery",), "expected a series", id="offset"),
        pytest.param({"seriesQuery": "q @ 0"}, ("seriesQuery",), "expected a series", id="at"),
        pytest.param({"seriesQuery": "q["}, ("seriesQuery",), "expected a series", id="not-promql"),
        pytest.param({"seriesQuery": "(" * 9999}, ("seriesQuery",), "expected a series", id="too-deep"),
        pytest.param({"seriesQuery": '{queue="a"}'}, ("seriesQuery",), "only Prometheus can tell", id="no-name"),
        pytest.param(
            {"seriesQuery": '{__name__=~"a|b"}', "name": {"as": "x"}},
            ("seriesQuery",),
            "only Prometheus can tell",
            id="family-in-query",
        ),
        pytest.param({"seriesFilters": [{"is": "^r"}]}, ("seriesFilters", 0, "is"), "excludes", id="is"),
        pytest.param({"seriesFilters": [{"isNot": "^q"}]}, ("seriesFilters", 0, "isNot"), "excludes", id="is-not"),
        pytest.param({"seriesFilters": [{}]}, ("seriesFilters", 0), "exactly one", id="neither"),
        pytest.param({"seriesFilters": [{"is": "q", "isNot": "r"}]}, ("seriesFilters", 0), "exactly one", id="both"),
        pytest.param({"metricsQuery": "<<.Labels>>"}, ("metricsQuery",), '"<<.Labels"', id="unknown-field"),
        pytest.param(
            {"metricsQuery": 'q{a="<<index .LabelValuesByName "a">>"}'},
            ("metricsQuery",),
            "write the rule under metrics",
            id="index",
        ),
        pytest.param({"metricsQuery": "<<if .Series>>q<<end>>"}, ("metricsQuery",), '"<<if .Series"', id="if"),
        pytest.param({"metricsQuery": "q{<<.LabelMatchers}"}, ("metricsQuery",), "does not end", id="unclosed"),
        pytest.param({"metricsQuery": "sum(q) by (<<.LabelMatchers>>)"}, ("metricsQuery",), "braces", id="outside"),
        pytest.param({"metricsQuery": 'q{a="<<.LabelMatchers>>"}'}, ("metricsQuery",), "in a string", id="in-string"),
        pytest.param({"metricsQuery": "<</* x */>>"}, ("metricsQuery",), "empty", id="nothing-left"),
        pytest.param(
            {"resources": {"template": "<<.Label>>"}}, ("resources", "template"), '"<<.Label"', id="label-template"
        ),
        pytest.param(
            {"resources": {"overrides": {"a": {"resource": "namespace"}, "b": {"resource": "namespaces"}}}},
            ("resources", "overrides"),
            "several labels",
            id="two-labels",
        ),
    ],
)
def test_external_rule_is_refused_with_its_place(
    tmp_path: Path, changed: dict[str, object], below: tuple[str | int, ...], says: str
) -> None:
    """What cannot work is one problem at the key that is wrong."""
    problem = refuse_one(tmp_path, **changed)
    assert problem.path[2:] == below
    assert says in problem.detail


def test_family_is_served_if_nothing_depends_on_the_series(tmp_path: Path) -> None:
    """A family of series needs no single name where neither the metric's name nor its query has one."""
    rule = load_one(
        tmp_path,
        seriesQuery='{__name__=~".*_queue"}',
        name={"as": "all_queues"},
        metricsQuery='sum({__name__=~".*_queue",<<.LabelMatchers>>})',
    )
    assert rule.name == "all_queues"
    assert rule.query.render(matchers=MATCHERS) == 'sum({__name__=~".*_queue",queue="orders"})'


def test_filters_that_let_the_series_through_change_nothing(tmp_path: Path) -> None:
    """Filters decide only whether there is a metric; they are unanchored."""
    filters = [{"is": "tal"}, {"isNot": "^x"}, {"is": "[[:alpha:]]+_total"}]
    assert load_one(tmp_path, seriesQuery="q_total", seriesFilters=filters).name == "q_total"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("<<.Series>>{<<.LabelMatchers>>}", 'q{queue="orders"}', id="plain"),
        pytest.param("<< .Series >>{<< .LabelMatchers >>}", 'q{queue="orders"}', id="blanks"),
        pytest.param("sum( <<- .Series ->> {<<.LabelMatchers>>})", 'sum(q{queue="orders"})', id="trim"),
        pytest.param("q{<<.LabelMatchers>>} + ( <<- .Series ->> )", 'q{queue="orders"} + (q)', id="trim-at-the-end"),
        pytest.param("sum(q{<<.LabelMatchers>>}) by (<<.GroupBy>>)", 'sum(q{queue="orders"}) by ()', id="group-by"),
        pytest.param("<</* a note */>>q{<<.LabelMatchers>>}", 'q{queue="orders"}', id="comment"),
        pytest.param(
            "q{<<.LabelMatchers>>} or clamp_max(absent(q{<<.LabelMatchers>>}),0)",
            'q{queue="orders"} or clamp_max(absent(q{queue="orders"}),0)',
            id="Z5-every-time",
        ),
    ],
)
def test_query_template_renders_as_go_does(tmp_path: Path, query: str, expected: str) -> None:
    """Fields are replaced every time they occur, trim markers trim, comments go."""
    assert load_one(tmp_path, metricsQuery=query).query.render(matchers=MATCHERS) == expected


def test_l10_no_matcher_leaves_no_comma(tmp_path: Path) -> None:
    """L10: a global rule asked without a selector renders without the comma that the placeholder would leave."""
    rule = load_one(tmp_path, metricsQuery='q{<<.LabelMatchers>>,vhost="/"}')
    assert rule.query.render() == 'q{vhost="/"}'


@pytest.mark.parametrize(
    ("resources", "policy"),
    [
        pytest.param({"namespaced": False}, AnyNamespace(), id="global"),
        pytest.param({"overrides": {"ns": {"resource": "namespace"}}}, NamespaceLabel("ns"), id="override"),
        pytest.param({"overrides": {"ns": {"resource": "namespaces"}}}, NamespaceLabel("ns"), id="plural"),
        pytest.param({"template": "<<.Resource>>"}, NamespaceLabel("namespace"), id="template"),
        pytest.param({"template": "kube_<<.Resource>>_x"}, NamespaceLabel("kube_namespace_x"), id="template-around"),
        pytest.param(
            {"template": "k_<<.Resource>>", "overrides": {"ns": {"resource": "namespace"}, "p": {"resource": "pod"}}},
            NamespaceLabel("ns"),
            id="override-before-template",
        ),
        pytest.param(
            {"template": "<<.Resource>>", "overrides": {"x": {"group": "apps", "resource": "namespace"}}},
            NamespaceLabel("namespace"),
            id="override-of-another-group",
        ),
    ],
)
def test_namespace_label_comes_from_resources(tmp_path: Path, resources: dict[str, object], policy: object) -> None:
    """The label of the namespace is the override's, else the template's; namespaced: false adds none."""
    assert load_one(tmp_path, resources=resources).namespace == policy


@pytest.mark.parametrize(
    "resources", [{}, {"overrides": {"pod": {"resource": "pod"}}}, {"namespaced": True, "template": ""}]
)
def test_ns4_namespaced_rule_without_a_label_is_refused(tmp_path: Path, resources: dict[str, object]) -> None:
    """NS4: a namespaced rule for which no label is known is a problem at load, not a 500 later."""
    problem = refuse_one(tmp_path, resources=resources)
    assert (problem.path[2:], problem.kind) == (("resources",), Kind.REQUIRED)
    assert "{namespaced: false}" in problem.detail


def test_namespaced_rule_without_the_placeholder_serves_all_and_says_so(tmp_path: Path) -> None:
    """Without <<.LabelMatchers>> the namespace goes nowhere, there as here, and a note says it."""
    rule = RULE | {"resources": {"template": "<<.Resource>>"}, "metricsQuery": "sum(q)"}
    loaded = load_rules(tmp_path, rule)
    (note,) = loaded.warnings
    assert loaded.configuration.get_rule("q").namespace == AnyNamespace()
    assert (note.path, note.line) == (("externalRules", 0), 2)
    assert "every namespace" in note.detail


def test_m8_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    """M8: two external rules with the same name are a problem that names both places."""
    with pytest.raises(ConfigurationError) as caught:
        load_rules(tmp_path, RULE | {"name": {"as": "depth"}}, RULE | {"seriesQuery": "r", "name": {"as": "depth"}})
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind, problem.value) == (("externalRules", 1), Kind.DUPLICATE, '"depth"')
    assert f"{tmp_path}/depthgauge.yaml:2" in problem.detail
    assert problem.line > 2


def test_o2_helm_value_is_refused_naming_external_rules(tmp_path: Path) -> None:
    """O2: the Helm chart's `rules: {external: [...]}` says where the list goes."""
    with pytest.raises(ConfigurationError) as caught:
        load_rules(tmp_path, rules={"default": False, "external": [RULE]})
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind) == (("rules",), Kind.INVALID)
    assert "externalRules" in problem.detail


def test_whole_adapter_file_is_used_beside_one_with_a_backend(tmp_path: Path) -> None:
    """In a directory a prometheus-adapter file is taken as it is; what is not served is ignored with a note each."""
    foreign = {"rules": [{"seriesQuery": "x"}], "resourceRules": {"cpu": {"window": None}}, "externalRules": [RULE]}
    (tmp_path / "adapter.yaml").write_text(yaml.safe_dump(foreign))
    (tmp_path / "depthgauge.yaml").write_text(yaml.safe_dump({"prometheus": BACKEND}))
    loaded = load_configuration(tmp_path)
    assert set(loaded.configuration.rules) == {"q"}
    assert [note.path for note in loaded.warnings] == [("resourceRules",), ("rules",)]


def test_whole_adapter_file_alone_is_told_what_is_missing(tmp_path: Path) -> None:
    """Alone it has no backend, and the problem says how to use it."""
    path = tmp_path / "adapter.yaml"
    path.write_text(yaml.safe_dump({"externalRules": [RULE]}))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind, problem.line) == (("prometheus",), Kind.REQUIRED, 2)
    assert "load the directory" in problem.detail


def test_all_problems_of_one_rule_are_told_at_once(tmp_path: Path) -> None:
    """A bad name does not hide a bad query or a missing namespace label."""
    rule = {"seriesQuery": "q", "name": {"as": "$7"}, "metricsQuery": "<<end>>"}
    with pytest.raises(ConfigurationError) as caught:
        load_rules(tmp_path, rule)
    assert {problem.path[2:] for problem in caught.value.problems} == {
        ("name", "as"),
        ("metricsQuery",),
        ("resources",),
    }
