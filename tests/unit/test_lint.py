"""What `check` says of a rule without asking a backend."""

import re

import pytest

from adapter.domain.lint import Finding, lint_rule, lint_rules
from adapter.domain.outline import find_labels, has_one_series
from adapter.domain.promql import parse_shape, parse_template
from adapter.domain.rules import Guards, NamespaceLabel, NamespacePolicy, Rule


def build_rule(
    query: str,
    *,
    name: str = "queue_length",
    namespace: NamespacePolicy | None = None,
    labels: dict[str, str] | None = None,
    guards: Guards | None = None,
) -> Rule:
    """Return a rule as the loader would build it."""
    template = parse_template(query)
    return Rule(
        name=name,
        query=template,
        shape=parse_shape(template),
        namespace=namespace or Rule.__dataclass_fields__["namespace"].default_factory(),
        labels=labels or {},
        guards=guards or Guards(),
        origin="depthgauge.yaml:3",
    )


def codes(rule: Rule) -> list[str]:
    """Return the codes of the findings, in order."""
    return [finding.code for finding in lint_rule(rule)]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param('sum(myapp_queue_length{queue="orders"})', id="sum"),
        pytest.param("sum by (namespace, queue) (myapp_queue_length)", id="sum_by"),
        pytest.param("myapp_queue_length", id="plain"),
        pytest.param("sum(q{$matchers})", id="pushdown"),
        pytest.param("sum(q{namespace=$namespace})", id="namespace_placeholder"),
        pytest.param("sum(rate(q_total[5m])) * 60", id="rate"),
        pytest.param("sum(a) or sum(b)", id="or_of_series"),
        pytest.param("sum(a) / 60", id="division_by_constant"),
        pytest.param("sum(a) / (sum(b) > 0)", id="guarded_ratio"),
        pytest.param("sum(a) / clamp_min(sum(b), 1)", id="clamped_ratio"),
        pytest.param("sum(a) / count(b)", id="ratio_of_a_count"),
        pytest.param("sum(a) / (sum(b) + 1)", id="ratio_plus_one"),
        pytest.param("sum(a) / sum(b) and sum(b) > 0", id="ratio_and_condition"),
        pytest.param("sum(a) / sum(b > 0)", id="ratio_of_filtered_sum"),
        pytest.param("max(a / (b != 0))", id="aggregated_ratio"),
        pytest.param("sum by (queue) (q)", id="by"),
        pytest.param("avg by (queue) (q)", id="average_by"),
        pytest.param("max(avg_over_time(q[5m]))", id="average_over_time"),
        pytest.param("q and on () (sum(up) > 0 or vector(0))", id="fallback_in_a_condition"),
        pytest.param('label_replace(q, "queue", "$1", "name", "(.*)")', id="label_replace"),
        pytest.param('label_replace(q, "queue", "${name}", "name", "(?P<name>.*)")', id="label_replace_named"),
        pytest.param('q{path=~"/a$|/b$"}', id="regex_end"),
        pytest.param('q{path=~"^a.*$"} # $matchers', id="comment"),
        pytest.param("scalar(sum(q))", id="scalar"),
        pytest.param("absent(q)", id="absent_alone"),
        pytest.param("q offset 2m", id="offset"),
    ],
)
def test_lint_is_silent_about_sound_queries(query: str) -> None:
    """A query that is as it should be gets no finding: a lint that cries wolf is switched off."""
    assert lint_rule(build_rule(query)) == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum(rate(sqs_visible{queue_name='jobs.fifo'}))", ["not-parsed"], id="field_5"),
        pytest.param("sum(", ["not-parsed"], id="cut_off"),
        pytest.param("queue_depth[5m]", ["wrong-result-type"], id="Z10"),
        pytest.param("rate(q[5m])[1h:1m]", ["wrong-result-type"], id="Z10_subquery"),
        pytest.param('"42"', ["wrong-result-type"], id="Z13"),
        pytest.param("('42')", ["wrong-result-type"], id="Z13_in_parentheses"),
        pytest.param("vector(1)", ["no-series"], id="vector"),
        pytest.param("time()", ["no-series"], id="time"),
        pytest.param("42", ["no-series"], id="number"),
        pytest.param('sum(q{queue="a"}) or vector(0)', ["constant-fallback"], id="Z3"),
        pytest.param("sum(q) or on () vector(0)", ["constant-fallback"], id="Z3_on"),
        pytest.param("(sum(q or vector(0))) * 2", ["constant-fallback"], id="Z3_below_a_sum"),
        pytest.param("sum(a) + (sum(b) or vector(0))", ["constant-fallback"], id="Z3_in_a_sum"),
        pytest.param("clamp_max((sum(q) or vector(3)), 10)", ["constant-fallback"], id="Z3_in_a_function"),
        pytest.param("vector(0) or sum(q)", ["constant-fallback"], id="Z3_other_side"),
        pytest.param("sum(q) or vector(0) * 1", ["constant-fallback"], id="Z3_calculated"),
        pytest.param('sum(q) or label_replace(vector(0), "a", "b", "", "")', ["constant-fallback"], id="Z3_labelled"),
        pytest.param(
            "(sum(rate(req_sum[1m])) or sum(histogram_sum(rate(req[1m])))) or vector(0)",
            ["constant-fallback"],
            id="field_13",
        ),
        pytest.param('q{a="b"} or clamp_max(absent(q{a="b"}), 0)', ["absent-fallback"], id="Z5"),
        pytest.param("sum(q) or absent(q) * 0", ["absent-fallback"], id="Z5_times_zero"),
        pytest.param("sum(q) or (absent_over_time(q[5m]) - 1)", ["absent-fallback"], id="Z5_over_time"),
        pytest.param("q{$matchers} or absent(q{$matchers})", ["absent-fallback", "absent-of-matchers"], id="Z5_pushed"),
        pytest.param("sum by (pod) (a) / sum by (pod) (b > 0)", ["several-ratios"], id="V5"),
        pytest.param("a / (b > 0) * 100", ["several-ratios"], id="V5_bare"),
        pytest.param("clamp_max(a / (b > 0), 1)", ["several-ratios"], id="V5_in_a_function"),
        pytest.param("topk(3, a / (b > 0))", ["several-ratios"], id="V5_topk"),
        pytest.param('mq_msgs{queue="q1"} / mq_consumers{queue="q1"}', ["several-ratios", "division-by-zero"], id="12"),
        pytest.param(
            "histogram_quantile(0.9, sum by (pod, le) (rate(b[5m])))", ["several-ratios", "idle-quantile"], id="V5_N1"
        ),
        pytest.param("sum(msgs) / sum(consumers)", ["division-by-zero"], id="N2"),
        pytest.param("sum(a / b)", ["division-by-zero"], id="N2_below_a_sum"),
        pytest.param("sum(a) / (sum(b) > bool 0)", ["division-by-zero"], id="N2_bool"),
        pytest.param("sum(a) / (sum(b) >= 0)", ["division-by-zero"], id="N2_at_least_zero"),
        pytest.param("sum(a) / clamp_min(sum(b), 0)", ["division-by-zero"], id="N2_clamp_zero"),
        pytest.param("sum(a) / 0", ["division-by-zero"], id="N2_zero"),
        pytest.param("sum(a) % scalar(sum(b))", ["division-by-zero"], id="N2_modulo"),
        pytest.param("histogram_quantile(0.95, sum by (le) (rate(b[5m])))", ["idle-quantile"], id="N1"),
        pytest.param("avg(q)", ["average"], id="H1"),
        pytest.param("avg by () (q) * 2", ["average"], id="H1_scaled"),
        pytest.param("60 * (avg(rate(q[5m])))", ["average"], id="H1_in_parentheses"),
        pytest.param('avg(gpu{svc="x"})', ["average"], id="field_14"),
        pytest.param("job:queue_depth:sum", ["recorded-series"], id="M3"),
        pytest.param('sum({__name__="job:queue_depth:sum"})', ["recorded-series"], id="M3_name_matcher"),
        pytest.param('q{a="$matchers"}', ["placeholder-in-text"], id="matchers_in_quotes"),
        pytest.param('q{namespace="$namespace"}', ["placeholder-in-text"], id="namespace_in_quotes"),
        pytest.param('q{queue="$queue"}', ["dashboard-variable"], id="variable"),
        pytest.param('q{queue=~"${queue:regex}"}', ["dashboard-variable"], id="variable_in_braces"),
        pytest.param('q{queue="[[queue]]"}', ["dashboard-variable"], id="variable_in_brackets"),
        pytest.param("sum(rate(q[$__rate_interval]))", ["dashboard-variable"], id="rate_interval"),
    ],
)
def test_lint_names_what_is_wrong(query: str, expected: list[str]) -> None:
    """Each kind of trap is found in the shapes in which people write it, and nothing else is said of it."""
    assert codes(build_rule(query)) == expected


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("queue_depth[5m]", id="matrix"),
        pytest.param('"42"', id="string"),
        pytest.param("sum(rate(q[$__interval]))", id="dashboard_variable"),
    ],
)
def test_lint_level_is_error_for_rules_that_can_never_answer(query: str) -> None:
    """What can never give a number is an error, and fails a check."""
    assert [finding.level for finding in lint_rule(build_rule(query))] == ["error"]


def test_lint_quotes_the_parser_clipped_when_it_cannot_parse() -> None:
    """The parser's own text says what it stumbled on, on one line and not without end (B4, field 5)."""
    (finding,) = lint_rule(build_rule("sum(rate(sqs_visible))"))
    assert "expected type matrix in call to function 'rate', got vector" in finding.message
    assert finding.level == "warning"
    (long,) = lint_rule(build_rule("sum(q{" + "a" * 5000 + "})"))
    assert len(long.message) < 500
    assert "\n" not in long.message


def test_lint_says_that_a_pushed_selector_is_answered_by_the_constant() -> None:
    """Behind $matchers a constant answers mistyped selectors too, and the message says so (Z3)."""
    (snapshot,) = lint_rule(build_rule("sum(q) or vector(0)"))
    (pushdown,) = lint_rule(build_rule("sum(q{$matchers}) or vector(0)"))
    assert "mistyped" not in snapshot.message
    assert "mistyped" in pushdown.message


def test_lint_accepts_ratios_when_the_rule_expects_one_item() -> None:
    """With expectOne the HPA has nothing to add (V5)."""
    query = "sum by (queue) (a) / sum by (queue) (b > 0)"
    assert codes(build_rule(query)) == ["several-ratios"]
    assert codes(build_rule(query, guards=Guards(expect_one=True))) == []


def test_lint_accepts_ratios_when_each_namespace_sees_one_series() -> None:
    """A result by the label that each request's namespace selects has one item for each request (V5)."""
    query = "sum by (namespace) (a) / sum by (namespace) (b > 0)"
    assert codes(build_rule(query, namespace=NamespaceLabel("namespace"))) == []
    by_pod = "sum by (namespace, pod) (a) / sum by (namespace, pod) (b > 0)"
    assert codes(build_rule(by_pod, namespace=NamespaceLabel("namespace"))) == ["several-ratios"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum by (queue) (q)", ["namespace-label-dropped"], id="by"),
        pytest.param("sum(q)", ["namespace-label-dropped"], id="bare"),
        pytest.param("topk(1, sum by (queue) (q))", ["namespace-label-dropped"], id="topk"),
        pytest.param("max_over_time(sum by (queue) (q)[5m:1m])", [], id="subquery_left_open"),
        pytest.param("sum by (namespace) (q)", [], id="kept"),
        pytest.param("sum without (queue) (q)", [], id="without"),
        pytest.param("q", [], id="plain"),
        pytest.param("sum by (queue) (q{$matchers})", [], id="pushdown"),
        pytest.param('label_replace(sum(q), "namespace", "a", "", "")', [], id="put_back"),
    ],
)
def test_lint_finds_a_namespace_label_that_the_query_drops(query: str, expected: list[str]) -> None:
    """A snapshot rule whose result cannot hold the namespace's label would answer NoMatch to everyone."""
    findings = lint_rule(build_rule(query, namespace=NamespaceLabel("namespace")))
    assert [finding.code for finding in findings] == expected
    assert all(finding.level == "error" for finding in findings)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum by (queue) (q)", ["mapped-label-dropped"], id="dropped"),
        pytest.param("sum by (app) (q)", [], id="kept"),
        pytest.param("sum(q{$matchers})", [], id="pushdown"),
    ],
)
def test_lint_finds_a_mapped_label_that_the_query_drops(query: str, expected: list[str]) -> None:
    """A selector key that is mapped to a label which the result cannot hold can only answer NoMatch."""
    assert codes(build_rule(query, labels={"app.kubernetes.io/name": "app"})) == expected


def test_lint_puts_errors_first_and_each_finding_once() -> None:
    """The worst is read first, and two selectors with one fault are one finding."""
    rule = build_rule("sum(a:b + a:b) or vector(0) or vector(0)", namespace=NamespaceLabel("namespace"))
    assert codes(rule) == ["namespace-label-dropped", "constant-fallback", "recorded-series"]


def test_finding_reads_as_a_line_with_its_origin() -> None:
    """A finding is printed so that an editor can jump to it."""
    finding = Finding("warning", "average", "is an average", "queue_length", "depthgauge.yaml:3")
    assert str(finding) == "depthgauge.yaml:3: metrics queue_length: warning: is an average [average]"


def test_lint_rules_keeps_the_order_of_the_rules() -> None:
    """Findings come rule by rule, as the configuration lists them."""
    findings = lint_rules([build_rule("avg(q)", name="b"), build_rule("vector(1)", name="a")])
    assert [(finding.rule, finding.code) for finding in findings] == [("b", "average"), ("a", "no-series")]


@pytest.mark.parametrize(
    "query",
    [
        'max(sidekiq_backlog{job="chat"})',
        "sum(rmq_ready{$matchers}) by (queue)",
        "sum(rate(sqs_visible))",
        "sum(a:b) or vector(0)",
        "a / b",
        "avg(q)",
        '"x"',
        "time()",
        "sum(rate(q[$__interval]))",
        'q{a="$matchers"}',
        "absent(q{$matchers})",
    ],
)
def test_lint_message_says_what_to_do_next(query: str) -> None:
    """Every message has a clause of advice after a semicolon, on one line."""
    for finding in lint_rule(build_rule(query)):
        assert re.search(r"; \S", finding.message), finding
        assert "\n" not in finding.message


FIELD = {
    "1": ('max(sidekiq_backlog{job="chat"})', []),
    "2": ("sum(rmq_ready{$matchers}) by (queue)", []),
    "3": (
        """# smooth, floor, take the worst
        topk(1, sum by (namespace, group) (clamp_min(avg_over_time(kafka_lag{$matchers, group=~"g1|g2"}[1m]), 0)))""",
        [],
    ),
    "4": ("sum(tq_backlog{$matchers})", []),
    "5": ('sum(rate(sqs_visible{queue_name="jobs.fifo"}))', ["not-parsed"]),
    "6": ('max_over_time(sqs_visible{queue_name="jobs"}[15m])', []),
    "7": ('sum(irate(nginx_reqs{ingress="shop"}[2m]))*60', []),
    "8": ("sum(nsq_topic_depth{$matchers})", []),
    "9": ("max(orders_queue{$matchers})", []),
    "10": ("sum by (pod) (requests)", []),
    "11": ('sum(sub_undelivered{sub="a"})', []),
    "12": ('mq_msgs{queue="q1"} / mq_consumers{queue="q1"}', ["several-ratios", "division-by-zero"]),
    "13": (
        "(sum(rate(req_sum[1m])) or sum(histogram_sum(rate(req[1m])))) or vector(0)",
        ["constant-fallback"],
    ),
    "14": ('avg(gpu{svc="x"})', ["average"]),
    "15": ("sum(pubsub_undelivered{$matchers})", []),
}


@pytest.mark.parametrize("number", FIELD)
def test_lint_judges_the_configurations_from_the_field(number: str) -> None:
    """The fifteen public configurations get the findings that their reporters would have needed, and no others."""
    query, expected = FIELD[number]
    assert codes(build_rule(query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum by (a, b) (q)", {"a", "b"}, id="by"),
        pytest.param("sum without (a) (sum by (a, b) (q))", {"b"}, id="without_after_by"),
        pytest.param("sum by (a) (q) / on (a) group_left (c) r", {"a", "c"}, id="group_left"),
        pytest.param("r * on (a) group_right (c) sum by (a) (q)", {"a", "c"}, id="group_right"),
        pytest.param("q / on (a) r", {"a"}, id="on"),
        pytest.param("sum by (a, b) (q) / ignoring (b) r", {"a"}, id="ignoring"),
        pytest.param("sum by (a) (q) or sum by (b) (r)", {"a", "b"}, id="or"),
        pytest.param("sum by (a) (q) unless r", {"a"}, id="unless"),
        pytest.param("2 * sum by (a) (q) > 1", {"a"}, id="constants"),
        pytest.param('count_values("v", q)', {"v"}, id="count_values"),
        pytest.param("histogram_quantile(0.5, sum by (le, a) (q))", {"a"}, id="quantile_drops_le"),
        pytest.param("ceil(sum by (a) (q))", {"a"}, id="function"),
        pytest.param("q", None, id="plain"),
        pytest.param("sum by (a) (q) or r", None, id="or_open"),
        pytest.param('label_replace(sum(q), "a", "b", "", "")', None, id="label_replace"),
    ],
)
def test_labels_of_a_result_are_those_that_survive(query: str, expected: set[str] | None) -> None:
    """The labels that a result can have follow from the query, or are left open."""
    assert find_labels(parse_shape(parse_template(query)).expression) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum(q)", True, id="sum"),
        pytest.param("topk(1, q)", True, id="topk_one"),
        pytest.param("topk by (a) (1, q)", False, id="topk_by"),
        pytest.param("topk(2, q)", False, id="topk_two"),
        pytest.param("sum(a) / sum(b)", True, id="ratio"),
        pytest.param("sum by (a) (b)", False, id="by"),
        pytest.param("-sum(a) and b", True, id="and"),
        pytest.param("sum(a) or sum(b)", True, id="or_of_unlabelled"),
        pytest.param("a or sum(b)", False, id="or"),
        pytest.param("ceil(sum(a))", True, id="function"),
        pytest.param("ceil(a)", False, id="function_of_many"),
        pytest.param('count_values("v", a)', False, id="count_values"),
    ],
)
def test_one_series_is_told_from_several(query: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Whether a result has at most one series follows from the query."""
    assert has_one_series(parse_shape(parse_template(query)).expression) is expected
