"""The configurations from the field (cases.md), each loaded or refused as its note says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.config.load import load_configuration
from adapter.config.problems import ConfigurationError, Kind
from adapter.domain.matchers import Matcher
from adapter.domain.rules import AnyNamespace, Configuration, NamespaceLabel

BACKEND = "prometheus: {url: http://prometheus:9090}\n"
QUEUE = Matcher("queue", "=", "orders")
NAMESPACE = Matcher("namespace", "=", "team-a")

Load = Callable[[str], Configuration]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return what loads a text, together with a backend."""

    def load_text(text: str) -> Configuration:
        path = tmp_path / "depthgauge.yaml"
        path.write_text(BACKEND + text)
        return load_configuration(path).configuration

    return load_text


def test_field_01(load: Load) -> None:
    """A fixed query is served under the name of `name.as`, the same to every namespace, as prometheus-adapter does."""
    rule = load("""\
externalRules:
- seriesQuery: 'sidekiq_backlog{job="chat"}'
  name: {as: ai_backlog}
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: 'max(sidekiq_backlog{job="chat"})'
""").get_rule("ai_backlog")
    assert rule.query.render() == 'max(sidekiq_backlog{job="chat"})'
    assert rule.namespace == AnyNamespace()
    assert not rule.query.has_matchers


def test_field_02(load: Load) -> None:
    """A namespaced rule puts the namespace and the selector where the placeholder stood."""
    rule = load("""\
externalRules:
- seriesQuery: 'rmq_ready{queue!=""}'
  resources: {overrides: {namespace: {resource: namespace}}}
  name: {as: rmq_ready}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (queue)'
""").get_rule("rmq_ready")
    assert rule.namespace == NamespaceLabel("namespace")
    assert rule.namespace_matcher("team-a") == NAMESPACE
    rendered = rule.query.render(matchers=[QUEUE, NAMESPACE])
    assert rendered == 'sum(rmq_ready{queue="orders",namespace="team-a"}) by (queue)'


def test_field_03(load: Load) -> None:
    """Newlines and PromQL comments survive, and with no matcher the leading comma goes."""
    rule = load("""\
externalRules:
- seriesQuery: 'kafka_lag{group!=""}'
  resources: {overrides: {namespace: {resource: namespace}}}
  name: {as: lag_worst2}
  metricsQuery: |
    # smooth, floor, take the worst
    topk(1, sum by (namespace, group) (clamp_min(
      avg_over_time(kafka_lag{<<.LabelMatchers>>, group=~"g1|g2"}[1m]), 0)))
""").get_rule("lag_worst2")
    text = """\
# smooth, floor, take the worst
topk(1, sum by (namespace, group) (clamp_min(
  avg_over_time(kafka_lag{%sgroup=~"g1|g2"}[1m]), 0)))
"""
    assert rule.query.render(matchers=[NAMESPACE]) == text % 'namespace="team-a", '
    assert rule.query.render() == text % " "
    assert rule.shape.problem == ""


def test_field_04(load: Load) -> None:
    """A global rule adds no namespace, and its selector goes into the query."""
    rule = load("""\
externalRules:
- seriesQuery: 'tq_backlog{build!="__none__"}'
  resources: {namespaced: false}
  name: {as: tq_backlog}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'
""").get_rule("tq_backlog")
    assert rule.namespace_matcher("team-a") is None
    assert rule.query.render() == "sum(tq_backlog{})"
    assert rule.query.render(matchers=[QUEUE]) == 'sum(tq_backlog{queue="orders"})'


def test_field_05(load: Load) -> None:
    """PromQL that cannot be right is kept as it is, for `check` and the request to tell; the rest of the file loads."""
    rule = load("""\
externalRules:
- seriesQuery: '{__name__=~"sqs_visible",queue_name="jobs.fifo"}'
  resources: {template: "<<.Resource>>"}
  name: {matches: "", as: sqs_visible}
  metricsQuery: 'sum(rate(sqs_visible{queue_name="jobs.fifo"}))'
""").get_rule("sqs_visible")
    assert rule.query.render() == 'sum(rate(sqs_visible{queue_name="jobs.fifo"}))'
    assert rule.shape.problem != ""


def test_field_06(load: Load) -> None:
    """A rule over late data needs nothing but its query: there is no window of discovery."""
    rule = load("""\
externalRules:
- seriesQuery: sqs_visible
  resources: {namespaced: false}
  metricsQuery: 'max_over_time(sqs_visible{queue_name="jobs"}[15m])'
""").get_rule("sqs_visible")
    assert rule.query.render() == 'max_over_time(sqs_visible{queue_name="jobs"}[15m])'


def test_field_07(load: Load) -> None:
    """A name with dashes, which no series could have, is a good metric name."""
    rule = load("""\
externalRules:
- seriesQuery: 'nginx_reqs{namespace="ingress",ingress="shop"}'
  resources: {namespaced: false}
  name: {matches: "", as: shop-requests-per-min}
  metricsQuery: 'sum(irate(nginx_reqs{ingress="shop"}[2m]))*60'
""").get_rule("shop-requests-per-min")
    assert rule.query.render() == 'sum(irate(nginx_reqs{ingress="shop"}[2m]))*60'


def test_field_08(load: Load) -> None:
    """A global rule lets the selector itself name another namespace."""
    rule = load("""\
externalRules:
- {seriesQuery: nsq_topic_depth, resources: {namespaced: false}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}
""").get_rule("nsq_topic_depth")
    matchers = [Matcher("namespace", "=", "nsq"), Matcher("topic", "=", "t1")]
    assert rule.query.render(matchers=matchers) == 'sum(nsq_topic_depth{namespace="nsq",topic="t1"})'


def test_field_09(load: Load) -> None:
    """A family of series is refused, with the shape of the rule to write for each."""
    with pytest.raises(ConfigurationError) as caught:
        load("""\
externalRules:
- seriesQuery: '{__name__=~"^.*_queue$",namespace!=""}'
  resources: {overrides: {namespace: {resource: namespace}}}
  name: {matches: "^.*_queue$", as: "$0"}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})
""")
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind, problem.line) == (("externalRules", 0, "seriesQuery"), Kind.INVALID, 3)
    assert "{seriesQuery: SERIES, metricsQuery: ...}" in problem.detail


def test_field_10(tmp_path: Path) -> None:
    """A path prefix is kept without its last slash, and a query of several series is served as it is."""
    path = tmp_path / "prefixed.yaml"
    path.write_text("""\
prometheus: {url: http://prometheus:9090/prometheus/}
externalRules:
- seriesQuery: afc_messages
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: 'sum by (pod) (<<.Series>>)'
""")
    configuration = load_configuration(path).configuration
    assert configuration.backends["default"].url == "http://prometheus:9090/prometheus"
    assert configuration.get_rule("afc_messages").query.render() == "sum by (pod) (afc_messages)"


FIELD_11 = """\
triggers:
- type: prometheus
  metadata: {serverAddress: "http://prom:9090", query: 'sum(sub_undelivered{sub="a"})', threshold: "150"}
"""
FIELD_12 = """\
triggers:
- type: prometheus
  metadata: {query: 'mq_msgs{queue="q1"} / mq_consumers{queue="q1"}', threshold: "6"}
"""
FIELD_13 = """\
triggers:
- type: prometheus
  metadata:
    ignoreNullValues: "false"
    query: '(sum(rate(req_sum[1m])) or sum(histogram_sum(rate(req[1m])))) or vector(0)'
"""


def _check_triggers_are_refused(load: Load, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind, problem.line) == (("triggers",), Kind.UNKNOWN_KEY, 2)
    assert "metrics: [{name: NAME, query:" in problem.detail


def _load_as_metric(load: Load, query: str) -> str:
    rule = load(f"metrics:\n- name: depth\n  query: '{query}'\n").get_rule("depth")
    assert rule.shape.problem == ""
    return rule.query.render()


def test_field_11(load: Load) -> None:
    """KEDA's trigger is refused with how to write it, and loads when written so."""
    _check_triggers_are_refused(load, FIELD_11)
    query = 'sum(sub_undelivered{sub="a"})'
    assert _load_as_metric(load, query) == query


def test_field_12(load: Load) -> None:
    """The same for a ratio."""
    _check_triggers_are_refused(load, FIELD_12)
    query = 'mq_msgs{queue="q1"} / mq_consumers{queue="q1"}'
    assert _load_as_metric(load, query) == query


def test_field_13(load: Load) -> None:
    """The same for a native histogram with `or vector(0)`."""
    _check_triggers_are_refused(load, FIELD_13)
    query = "(sum(rate(req_sum[1m])) or sum(histogram_sum(rate(req[1m])))) or vector(0)"
    assert _load_as_metric(load, query) == query


def test_field_14(load: Load) -> None:
    """An annotation of kube-metrics-adapter is refused with where its query goes, and loads when written so."""
    with pytest.raises(ConfigurationError) as caught:
        load('metric-config.external.qd.prometheus/query: avg(gpu{svc="x"})\n')
    (problem,) = caught.value.problems
    assert (problem.kind, problem.line) == (Kind.UNKNOWN_KEY, 2)
    assert problem.path == ("metric-config.external.qd.prometheus/query",)
    assert "metric under metrics" in problem.detail
    assert _load_as_metric(load, 'avg(gpu{svc="x"})') == 'avg(gpu{svc="x"})'


def test_field_15(load: Load) -> None:
    """A name with pipes and a key with dots can be configured; the value that Kubernetes refuses gets an alias."""
    rule = load("""\
metrics:
- name: pubsub.example.com|subscription|undelivered
  query: sum by (subscription_id) (undelivered)
  labels: {resource.labels.subscription_id: subscription_id}
  aliases: {resource.labels.subscription_id: {topic-sub: topic+sub}}
""").get_rule("pubsub.example.com|subscription|undelivered")
    assert rule.labels == {"resource.labels.subscription_id": "subscription_id"}
    assert rule.aliases == {"resource.labels.subscription_id": {"topic-sub": "topic+sub"}}
