"""What the adapter answers, case by case: run against the fake backend and against every real one.

A case has a rule, the series that a real backend scrapes, the answers that the fake gives to the PromQL that must
arrive, and what must come out. Rows of the list of reported faults keep their ID in the case's ID.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_prometheus import Answer, error, matrix, page, scalar, string, vector

NOTHING = vector([])
NO_NAN = {"victoria": "VictoriaMetrics neither stores NaN nor returns it"}
NO_STRINGS = {"victoria": "VictoriaMetrics answers a string with an empty vector"}
OWN_RATE = {"victoria": "MetricsQL's rate needs no range"}
REAL_BACKENDS = ("prometheus2", "prometheus3", "victoria")


@dataclass(frozen=True, slots=True)
class Case:
    """One rule, one question, one answer.

    *rule* are the keys of the metric beside its name and query. *series* is exposition text. *values* are the items'
    values in order, for a number; *reason*, *code* and *says* (fragments of the message) for an error. *only_fake*
    says why no real backend can produce it, *not_on* why one of them cannot.
    """

    id: str
    query: str
    answers: Mapping[str, Answer]
    series: str = ""
    rule: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    asked: str = ""
    selector: str = ""
    namespace: str = "default"
    values: Sequence[str] = ()
    labels: Sequence[Mapping[str, str]] | None = None
    code: int = 200
    reason: str = ""
    says: Sequence[str] = ()
    only_fake: str = ""
    not_on: Mapping[str, str] = field(default_factory=dict)

    @property
    def excused_from(self) -> Mapping[str, str]:
        """The real backends that this case is not asked of, each with the reason."""
        return dict.fromkeys(REAL_BACKENDS, self.only_fake) if self.only_fake else self.not_on

    @property
    def metric(self) -> str:
        """The rule's name: the ID's, unless the name itself is what the case is about."""
        return self.name or self.id.lower().replace(" ", "-")

    @property
    def document(self) -> dict[str, Any]:
        """The rule as it stands in a configuration."""
        return {"name": self.metric, "query": self.query, **self.rule}


def _value(case_id: str, text: str, value: str, **more: Any) -> Case:
    """Return a case of one series whose number is *text* for Prometheus and *value* for Kubernetes."""
    series = f"v_{case_id.lower().replace('-', '_')}"
    return Case(
        id=case_id,
        query=series,
        series=f"{series} {text}",
        answers={series: vector([({}, text)])},
        values=[value],
        **more,
    )


def _broken_value(case_id: str, text: str, reason: str, says: Sequence[str], **more: Any) -> Case:
    series = f"b_{case_id.lower().replace('-', '_')}"
    return Case(
        id=case_id,
        query=series,
        series=f"{series} {text}",
        answers={series: vector([({}, text)])},
        code=500,
        reason=reason,
        says=says,
        **more,
    )


_FIFTY_MB = (
    b'{"status":"success","data":{"resultType":"vector","result":['
    + b'{"metric":{"queue":"one of very many queues"},"value":[1700000000,"1"]},' * 700_000
    + b'{"metric":{},"value":[1700000000,"1"]}]}}'
)

NUMBERS = (
    _value("N7", "214748365", "214748365"),
    _value("N10-micro", "0.0004", "400u"),
    _value("N10-sub-milli", "0.0015", "1500u"),
    _value("N10-below-nano", "1e-12", "1n"),
    _value("N11-integer", "52443", "52443"),
    _value("N11-half", "329.5", "329500m"),
    _value("N11-kilo", "52000", "52k"),
    _value("N12-mega", "1e+06", "1M"),
    _value("N12-micro", "1.5e-05", "15u"),
    _value("N12-minus-zero", "-0", "0"),
    _value("N12-tenth", "0.1", "100m"),
    _value("H4", "0", "0"),
    _value("N5-below-bound", "9223372036854774", "9223372036854774"),
    _value("N5-at-bound", "9223372036854775", "9223372036854775", only_fake="no float64 is 9223372036854775"),
    _broken_value("N5", "2.5e18", "NotRepresentable", ["2500000000000000000", "9223372036854775"]),
    _broken_value("N8", "-1", "Negative", ["negative value -1", "clamp"]),
    _broken_value("N1-plain", "NaN", "NotFinite", ["value is NaN"], not_on=NO_NAN),
    _broken_value("N2-plain", "+Inf", "NotFinite", ["value is +Inf"]),
    Case(
        id="N5-sum",
        query="n5_sum",
        series='n5_sum{q="a"} 9e15\nn5_sum{q="b"} 9e15',
        answers={"n5_sum": vector([({"q": "a"}, "9e15"), ({"q": "b"}, "9e15")])},
        code=500,
        reason="NotRepresentable",
        says=["the sum of the items", "9223372036854775"],
    ),
    Case(
        id="N8-clamp",
        query="n8_clamp",
        rule={"negative": "clamp"},
        series="n8_clamp -3",
        answers={"n8_clamp": vector([({}, "-3")])},
        values=["0"],
    ),
    Case(
        id="N1",
        query="histogram_quantile(0.95, sum by (le) (rate(n1_bucket[5m])))",
        series='n1_bucket{le="1"} 0\nn1_bucket{le="+Inf"} 0',
        answers={"histogram_quantile(0.95, sum by (le) (rate(n1_bucket[5m])))": vector([({}, "NaN")])},
        code=500,
        reason="NotFinite",
        says=["value is NaN"],
        not_on=NO_NAN,
    ),
    Case(
        id="N2-infinite",
        query="sum(n2_msgs) / sum(n2_consumers)",
        series="n2_msgs 5\nn2_consumers 0",
        answers={"sum(n2_msgs) / sum(n2_consumers)": vector([({}, "+Inf")])},
        code=500,
        reason="NotFinite",
        says=["value is +Inf"],
    ),
    Case(
        id="N2-nan",
        query="sum(n2_none) / sum(n2_consumers)",
        series="n2_none 0",
        answers={"sum(n2_none) / sum(n2_consumers)": vector([({}, "NaN")])},
        code=500,
        reason="NotFinite",
        says=["value is NaN"],
        not_on=NO_NAN,
    ),
    Case(
        id="one-bad-of-three",
        query="obt",
        series='obt{q="a"} 1\nobt{q="b"} NaN\nobt{q="c"} 3',
        answers={"obt": vector([({"q": "a"}, "1"), ({"q": "b"}, "NaN"), ({"q": "c"}, "3")])},
        code=500,
        reason="NotFinite",
        says=['q="b"'],
        not_on=NO_NAN,
    ),
    Case(
        id="bad-one-not-selected",
        query="bns",
        selector="q in (a,c)",
        series='bns{q="a"} 1\nbns{q="b"} NaN\nbns{q="c"} 3',
        answers={"bns": vector([({"q": "a"}, "1"), ({"q": "b"}, "NaN"), ({"q": "c"}, "3")])},
        values=["1", "3"],
    ),
)

RESULTS = (
    Case(
        id="Z1",
        query="sum(z1_gone)",
        answers={"sum(z1_gone)": NOTHING},
        code=404,
        reason="NoSamples",
        says=["query returned no samples", "z1"],
    ),
    Case(id="Z6", query="z6_depth", answers={"z6_depth": NOTHING}, code=404, reason="NoSamples"),
    Case(
        id="Z5",
        query='z5{queue="a",$matchers} or clamp_max(absent(z5{queue="a",$matchers}),0)',
        selector="zone!=b",
        answers={
            'z5{queue="a",zone!="b"} or clamp_max(absent(z5{queue="a",zone!="b"}),0)': vector([({"queue": "a"}, "0")])
        },
        values=["0"],
        labels=[{"queue": "a"}],
    ),
    Case(
        id="Z9",
        query="scalar(sum(z9))",
        series="z9 5",
        answers={"scalar(sum(z9))": scalar("5")},
        values=["5"],
        labels=[{}],
    ),
    Case(
        id="Z9-missing",
        query="scalar(z9_missing)",
        answers={"scalar(z9_missing)": scalar("NaN")},
        code=500,
        reason="NotFinite",
        not_on=NO_NAN,
    ),
    Case(
        id="Z10",
        query="z10[5m]",
        series="z10 5",
        answers={"z10[5m]": matrix()},
        code=500,
        reason="WrongResultType",
        says=["must return an instant vector or scalar, got matrix"],
    ),
    Case(
        id="Z10-empty", query="z10_none[5m]", answers={"z10_none[5m]": matrix(())}, code=500, reason="WrongResultType"
    ),
    Case(
        id="Z13",
        query='"42"',
        answers={'"42"': string("42")},
        code=500,
        reason="WrongResultType",
        says=["got string"],
        not_on=NO_STRINGS,
    ),
    Case(
        id="V1",
        query="v1",
        series='v1{partition="2"} 9\nv1{partition="0"} 5\nv1{partition="1"} 7',
        answers={"v1": vector([({"partition": p}, v) for p, v in (("2", "9"), ("0", "5"), ("1", "7"))])},
        values=["5", "7", "9"],
        labels=[{"partition": "0"}, {"partition": "1"}, {"partition": "2"}],
    ),
    Case(
        id="V1-expect-one",
        query="v1e",
        rule={"guards": {"expectOne": True}},
        series='v1e{partition="2"} 9\nv1e{partition="0"} 5\nv1e{partition="1"} 7',
        answers={"v1e": vector([({"partition": p}, "5") for p in "012"])},
        code=500,
        reason="ExpectedOne",
        says=["3 series"],
    ),
    Case(
        id="V5",
        query="sum by (pod) (v5)",
        series='v5{pod="a"} 0.8\nv5{pod="b"} 0.8\nv5{pod="c"} 0.8',
        answers={"sum by (pod) (v5)": vector([({"pod": pod}, "0.8") for pod in "abc"])},
        values=["800m", "800m", "800m"],
    ),
    Case(
        id="too-many-series",
        query="tms",
        rule={"guards": {"maxSeries": 2}},
        series='tms{q="a"} 1\ntms{q="b"} 1\ntms{q="c"} 1',
        answers={"tms": vector([({"q": q}, "1") for q in "abc"])},
        code=500,
        reason="TooManySeries",
        says=["3 series", "2 allowed"],
    ),
    Case(
        id="P2",
        query="rate(p2_depth[1m])",
        series="p2_depth 5",
        answers={"rate(p2_depth[1m])": vector([({}, "0")], infos=["metric might not be a counter"])},
        values=["0"],
    ),
    Case(
        id="H1",
        query="avg(h1)",
        series='h1{q="a"} 10\nh1{q="b"} 20',
        answers={"avg(h1)": vector([({}, "15")])},
        values=["15"],
    ),
)

_L3 = {"q": vector([({"queue": "orders.v1"}, "5"), ({"queue": "ordersXv1"}, "100")])}
_L3_SERIES = 'q{queue="orders.v1"} 5\nq{queue="ordersXv1"} 100'
_L4 = 'l4{queue="a.b"} 1\nl4{queue="aXb"} 10\nl4{queue="c"} 2'
_L6 = 'l6{queue="a",zone="x"} 1\nl6{zone="x"} 2'

SELECTORS = (
    Case(
        id="L1",
        query="l1",
        selector="app.kubernetes.io/name=worker",
        series='l1{app="worker"} 1',
        answers={"l1": vector([({"app": "worker"}, "1")])},
        code=400,
        reason="UnmappedLabel",
        says=["app.kubernetes.io/name", "labels:"],
    ),
    Case(
        id="L1-pushdown",
        query="l1p{$matchers}",
        selector="app.kubernetes.io/name=worker",
        answers={},
        code=400,
        reason="UnmappedLabel",
        says=["app.kubernetes.io/name"],
    ),
    Case(
        id="L1-mapped",
        query="l1m",
        rule={"labels": {"app.kubernetes.io/name": "app"}},
        selector="app.kubernetes.io/name=worker",
        series='l1m{app="worker"} 1\nl1m{app="web"} 2',
        answers={"l1m": vector([({"app": "worker"}, "1"), ({"app": "web"}, "2")])},
        values=["1"],
    ),
    Case(
        id="L1-mapped-pushdown",
        query="l1mp{$matchers}",
        rule={"labels": {"app.kubernetes.io/name": "app"}},
        selector="app.kubernetes.io/name=worker",
        series='l1mp{app="worker"} 1\nl1mp{app="web"} 2',
        answers={'l1mp{app="worker"}': vector([({"app": "worker"}, "1")])},
        values=["1"],
    ),
    Case(
        id="L2",
        query="sum by (uri) (l2)",
        rule={"labels": {"route": "uri"}, "aliases": {"route": {"login": "/v1/login"}}},
        selector="route=login",
        series='l2{uri="/v1/login"} 4\nl2{uri="/v1/logout"} 9',
        answers={"sum by (uri) (l2)": vector([({"uri": "/v1/login"}, "4"), ({"uri": "/v1/logout"}, "9")])},
        values=["4"],
    ),
    Case(
        id="L2-pushdown",
        query="sum(l2p{$matchers})",
        rule={"labels": {"route": "uri"}, "aliases": {"route": {"login": '/v1/"login".\\x', "out": "/v1/logout"}}},
        selector="route in (login,out)",
        series='l2p{uri="/v1/\\"login\\".\\\\x"} 4\nl2p{uri="/v1/logout"} 9\nl2p{uri="/v1/_login_Yx"} 100',
        answers={
            'sum(l2p{uri=~"/v1/\\"login\\"\\\\.\\\\\\\\x|/v1/logout"})': vector([({}, "13")]),
        },
        values=["13"],
    ),
    Case(id="L2-invalid-value", query="l2i", selector="uri=/v1/login", answers={}, code=400, reason="BadSelector"),
    Case(id="L3", query="q", selector="queue in (orders.v1)", series=_L3_SERIES, answers=_L3, values=["5"]),
    Case(
        id="L3-pushdown",
        query="sum(q{$matchers})",
        selector="queue in (orders.v1)",
        answers={'sum(q{queue="orders.v1"})': vector([({}, "5")])},
        values=["5"],
    ),
    Case(
        id="L4",
        query="l4",
        selector="queue in (a.b,c)",
        series=_L4,
        answers={"l4": vector([({"queue": q}, v) for q, v in (("a.b", "1"), ("aXb", "10"), ("c", "2"))])},
        values=["1", "2"],
    ),
    Case(
        id="L4-pushdown",
        query="sum(l4{$matchers})",
        selector="queue in (a.b,c)",
        answers={'sum(l4{queue=~"a\\\\.b|c"})': vector([({}, "3")])},
        values=["3"],
    ),
    Case(
        id="L4-notin-pushdown",
        query="sum(l4{$matchers})",
        selector="queue notin (a.b,c)",
        answers={'sum(l4{queue!~"a\\\\.b|c"})': vector([({}, "10")])},
        values=["10"],
    ),
    Case(
        id="L6-exists",
        query="l6",
        selector="queue",
        series=_L6,
        answers={"l6": vector([({"queue": "a", "zone": "x"}, "1"), ({"zone": "x"}, "2")])},
        values=["1"],
    ),
    Case(
        id="L6-not-exists",
        query="l6",
        selector="!queue",
        answers={"l6": vector([({"queue": "a", "zone": "x"}, "1"), ({"zone": "x"}, "2")])},
        values=["2"],
    ),
    Case(
        id="L6-exists-pushdown",
        query="sum(l6{$matchers})",
        selector="queue",
        answers={'sum(l6{queue!=""})': vector([({}, "1")])},
        values=["1"],
    ),
    Case(
        id="L6-not-exists-pushdown",
        query="sum(l6{$matchers})",
        selector="!queue",
        answers={'sum(l6{queue=""})': vector([({}, "2")])},
        values=["2"],
    ),
    Case(id="L8", query="l8", selector="prio>3", answers={}, code=400, reason="BadSelector", says=["prio>3"]),
    Case(
        id="L9",
        query="sum(l9)",
        selector="queue=a",
        series='l9{queue="a"} 1\nl9{queue="b"} 10',
        answers={"sum(l9)": vector([({}, "11")])},
        code=404,
        reason="NoMatch",
        says=['"queue"', "labels that exist: none"],
    ),
    Case(
        id="L9-other-labels",
        query="sum by (zone) (l9z)",
        selector="queue=a",
        series='l9z{queue="a",zone="x"} 1',
        answers={"sum by (zone) (l9z)": vector([({"zone": "x"}, "1")])},
        code=404,
        reason="NoMatch",
        says=['"queue"', "labels that exist: zone"],
    ),
    Case(
        id="L9-value-unknown",
        query="sum by (queue) (l9v)",
        selector="queue=typo",
        series='l9v{queue="a"} 1',
        answers={"sum by (queue) (l9v)": vector([({"queue": "a"}, "1")])},
        code=404,
        reason="NoMatch",
        says=["queue=typo"],
    ),
    Case(
        id="no-match-pushdown",
        query="sum(nmp{$matchers})",
        selector="queue=typo",
        series='nmp{queue="a"} 1',
        answers={'sum(nmp{queue="typo"})': NOTHING, "count(\nsum(nmp{})\n)": vector([({}, "1")])},
        code=404,
        reason="NoMatch",
        says=['queue="typo"'],
    ),
    Case(
        id="no-samples-pushdown",
        query="sum(nsp{$matchers})",
        selector="queue=typo",
        answers={'sum(nsp{queue="typo"})': NOTHING, "count(\nsum(nsp{})\n)": NOTHING},
        code=404,
        reason="NoSamples",
        says=['queue="typo"'],
    ),
    Case(
        id="L10",
        query='l10{$matchers,vhost="/"}',
        series='l10{vhost="/"} 6',
        answers={'l10{vhost="/"}': vector([({"vhost": "/"}, "6")])},
        values=["6"],
    ),
    Case(id="L14", query="l14", selector="queue in (a", answers={}, code=400, reason="BadSelector"),
    Case(
        id="V3-a",
        query="v3",
        selector="queue=a",
        series='v3{queue="a"} 1\nv3{queue="b"} 2',
        answers={"v3": vector([({"queue": "a"}, "1"), ({"queue": "b"}, "2")])},
        values=["1"],
    ),
    Case(
        id="V3-b",
        query="v3",
        selector="queue=b",
        answers={"v3": vector([({"queue": "a"}, "1"), ({"queue": "b"}, "2")])},
        values=["2"],
    ),
)

_NS = 'ns{namespace="nsq"} 3\nns{namespace="app"} 4'

NAMES = (
    Case(id="M1-as-written", name="JobsQueued", query="m1", series="m1 1",
         answers={"m1": vector([({}, "1")])}, values=["1"]),
    Case(id="M1-lower", name="JobsQueued", asked="jobsqueued", query="m1",
         answers={"m1": vector([({}, "1")])}, values=["1"]),
    Case(id="M3", name="job:queue_depth:sum", query="m1", answers={"m1": vector([({}, "1")])}, values=["1"]),
    Case(id="M6", name="orders-requests-per-min", query="m1", answers={"m1": vector([({}, "1")])}, values=["1"]),
    Case(
        id="unknown-metric",
        name="known-metric",
        asked="known-metrik",
        query="m1",
        answers={},
        code=404,
        reason="UnknownMetric",
        says=["depthgauge has no rule", "known-metric"],
    ),
    Case(
        id="NS1-global",
        query='ns{namespace="nsq"}',
        namespace="app",
        series=_NS,
        answers={'ns{namespace="nsq"}': vector([({"namespace": "nsq"}, "3")])},
        values=["3"],
    ),
    Case(
        id="NS1-namespaced",
        query='ns{namespace="nsq"}',
        rule={"namespace": {"label": "namespace"}},
        namespace="app",
        answers={'ns{namespace="nsq"}': vector([({"namespace": "nsq"}, "3")])},
        code=404,
        reason="NoMatch",
        says=['namespace="app"', "added"],
    ),
    Case(
        id="NS1-namespaced-pushdown",
        query='ns{namespace="nsq",$matchers}',
        rule={"namespace": {"label": "namespace"}},
        namespace="app",
        answers={
            'ns{namespace="nsq",namespace="app"}': NOTHING,
            'count(\nns{namespace="nsq"}\n)': vector([({}, "1")]),
        },
        code=404,
        reason="NoMatch",
        says=['namespace="app"'],
    ),
    Case(
        id="NS1-own",
        query="ns",
        rule={"namespace": {"label": "namespace"}},
        namespace="app",
        answers={"ns": vector([({"namespace": "nsq"}, "3"), ({"namespace": "app"}, "4")])},
        values=["4"],
    ),
    Case(
        id="NS-placeholder",
        query="sum(ns{namespace=$namespace})",
        namespace="app",
        answers={'sum(ns{namespace="app"})': vector([({}, "4")])},
        values=["4"],
    ),
    Case(
        id="NS6",
        query="m1",
        rule={"namespace": ["a", "c"]},
        namespace="b",
        answers={},
        code=403,
        reason="NamespaceNotAllowed",
        says=['"b"'],
    ),
    Case(
        id="NS6-allowed", query="m1", rule={"namespace": ["a", "c"]}, namespace="c",
        answers={"m1": vector([({}, "1")])}, values=["1"],
    ),
)  # fmt: skip

QUERIES = (
    Case(
        id="B4",
        query='sum(rate(b4{queue="a"}))',
        answers={'sum(rate(b4{queue="a"}))': error(400, "bad_data", "expected type range vector in call to function")},
        code=500,
        reason="BadQuery",
        says=["bad_data"],
        not_on=OWN_RATE,
    ),
    Case(
        id="many-to-many",
        query="mm_a * on (q) mm_b",
        series='mm_a{q="a",z="1"} 1\nmm_a{q="a",z="2"} 1\nmm_b{q="a",z="1"} 1\nmm_b{q="a",z="2"} 1',
        answers={"mm_a * on (q) mm_b": error(422, "execution", "found duplicate series for the match group")},
        code=500,
        reason="BadQuery",
        says=["duplicate"],
    ),
    Case(
        id="B1",
        query="b1",
        answers={"b1": page(403, "forbidden")},
        code=500,
        reason="BackendRefused",
        says=["backend returned 403"],
        only_fake="a Prometheus refuses everyone or no one; test_backend_refuses asks one that wants a password",
    ),
    Case(
        id="B2",
        query="b2",
        answers={"b2": page(200, "<html>please log in</html>", "text/html; charset=utf-8")},
        code=500,
        reason="BackendRefused",
        says=["not a Prometheus JSON answer (text/html)"],
        only_fake="no Prometheus answers a query with a page",
    ),
    Case(
        id="B6",
        query="b6",
        answers={"b6": page(503, "no healthy upstream")},
        code=503,
        reason="BackendUnavailable",
        says=["503", "no healthy upstream"],
        only_fake="a Prometheus that is up does not say 503; test_backend_gone asks one that is not there",
    ),
    Case(
        id="too-many-requests",
        query="tmr",
        answers={"tmr": page(429, "slow down")},
        code=503,
        reason="BackendUnavailable",
        says=["429"],
        only_fake="no Prometheus limits the rate of queries",
    ),
    Case(
        id="B11",
        query="b11",
        answers={"b11": page(401, "no org id")},
        code=500,
        reason="BackendRefused",
        says=["no org id"],
        only_fake="only multi-tenant backends ask for a tenant",
    ),
    Case(
        id="P1",
        query="p1",
        answers={"p1": vector([({}, "40")], warnings=["store 10.0.0.7 unavailable"])},
        code=503,
        reason="Partial",
        says=["store 10.0.0.7 unavailable"],
        only_fake="only with remote storage; test_partial asks a Prometheus whose remote storage is away",
    ),
    Case(
        id="P1-allowed",
        query="p1a",
        rule={"guards": {"allowPartial": True}},
        answers={"p1a": vector([({}, "40")], warnings=["store 10.0.0.7 unavailable"])},
        values=["40"],
        only_fake="as P1",
    ),
    Case(
        id="P1-is-partial",
        query="p1p",
        answers={"p1p": vector([({}, "40")], is_partial=True)},
        code=503,
        reason="Partial",
        says=["isPartial"],
        only_fake="only a VictoriaMetrics cluster says isPartial",
    ),
    Case(
        id="status-error-with-200",
        query="se2",
        answers={"se2": error(200, "internal", "something broke")},
        code=500,
        reason="BackendRefused",
        says=["something broke"],
        only_fake="no Prometheus says error with 200",
    ),
    Case(
        id="redirect-for-ever",
        query="rfe",
        answers={"rfe": Answer(status=302, headers={"Location": "/api/v1/query"})},
        code=500,
        reason="BackendRefused",
        says=["302"],
        only_fake="no Prometheus redirects a query for ever",
    ),
    Case(
        id="answer-of-50-mb",
        query="big",
        answers={"big": Answer(body=_FIFTY_MB)},
        code=500,
        reason="TooManySeries",
        says=["16 MiB"],
        only_fake="a real one would take minutes to fill",
    ),
    Case(
        id="timeout-by-the-backend",
        query="tbb",
        answers={"tbb": error(503, "timeout", "query timed out in expression evaluation")},
        code=504,
        reason="DeadlineExceeded",
        only_fake="a query slow enough needs more data than a test has; test_real_slow_query makes one that is slow",
    ),
)

CASES = (*NUMBERS, *RESULTS, *SELECTORS, *NAMES, *QUERIES)


def build_series() -> str:
    """Return the exposition of all cases."""
    return "\n".join(dict.fromkeys(line for case in CASES for line in case.series.splitlines() if line)) + "\n"


def build_rules(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the rules of *cases*, each name once."""
    return list({case.metric.lower(): case.document for case in cases}.values())
