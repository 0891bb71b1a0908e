"""Routes: paths, verbs and parameters, asked of the ASGI application itself; whatever is asked, JSON comes back."""

import logging
from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.errors import NoSamples, Reason, UnknownMetric
from adapter.server.app import Application
from adapter.serving.provider import Question
from adapter.serving.ticks import EvaluationFault
from tests.support.asgi import ROOT, Metrics, call, check_status


@pytest.mark.parametrize(
    ("path", "namespace", "metric"),
    [
        pytest.param("/namespaces/n/depth", "n", "depth", id="plain"),
        pytest.param("/namespaces/n/depth/", "n", "depth", id="trailing-slash"),
        pytest.param("/namespaces/n/job:queue_depth:sum", "n", "job:queue_depth:sum", id="M3-colons"),
        pytest.param("/namespaces/n/job%3Aqueue_depth%3Asum", "n", "job:queue_depth:sum", id="M3-escaped-colons"),
        pytest.param("/namespaces/n/job%3aqueue", "n", "job:queue", id="M3-lower-case-escape"),
        pytest.param("/namespaces/n/orders-requests-per-min", "n", "orders-requests-per-min", id="M6"),
        pytest.param("/namespaces/n/a%2Fb", "n", "a/b", id="escaped-slash"),
        pytest.param("/namespaces/n/a%252Fb", "n", "a%2Fb", id="decoded-once"),
        pytest.param("/namespaces/n/a+b", "n", "a+b", id="plus-is-plus"),
        pytest.param("/namespaces/n/%C3%A9", "n", "é", id="utf-8"),
        pytest.param("/namespaces/n/JobsQueued", "n", "JobsQueued", id="M1-case-kept"),
        pytest.param("/namespaces/%2A/depth", "*", "depth", id="odd-namespace"),
    ],
)
def test_path_names_namespace_and_metric(path: str, namespace: str, metric: str) -> None:
    """Names are percent-decoded once, after the path was split; metricName is the asked name (M5)."""
    metrics = Metrics()
    reply = call(ROOT + path, metrics=metrics)
    assert reply.code == 200
    assert metrics.questions == [Question(namespace, metric, "")]
    assert reply.document["kind"] == "ExternalMetricValueList"
    assert [item["metricName"] for item in reply.document["items"]] == [metric]
    assert int(reply.headers[b"content-length"]) == len(reply.body)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/x",
        "/apis/other.k8s.io",
        "/apis/external.metrics.k8s.io/v1",
        "/api/v1",
        f"{ROOT}/m",
        f"{ROOT}/namespaces",
        f"{ROOT}/namespaces/",
        f"{ROOT}/namespaces/n",
        f"{ROOT}/namespaces/n/",
        f"{ROOT}/namespaces/n/m/x",
        f"{ROOT}/namespaces/n/m//",
        f"{ROOT}/namespaces//m",
        f"{ROOT}/namespaces/n//m",
        f"{ROOT}/namespaces/n/%ff",
        f"{ROOT}/namespaces/n/%ED%A0%80",
        f"{ROOT}/namespaces/%C3/m",
        f"{ROOT}/namespaces/n/\xe9",
        f"/{ROOT}/namespaces/n/m",
        "/docs",
        "/openapi.json",
    ],
)
def test_m9_path_of_nothing_is_a_404_status(path: str) -> None:
    """M9: a wrong path is `NotFound`, asks nothing, redirects nowhere."""
    metrics = Metrics()
    check_status(call(path, metrics=metrics), 404)
    assert not metrics.questions


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", [f"{ROOT}/namespaces/n/m", ROOT, "/apis", "/apis/external.metrics.k8s.io/"])
def test_m9_any_verb_but_get_is_a_405_status(method: str, path: str) -> None:
    """M9: 405 MethodNotAllowed with an Allow header, on metrics and on discovery."""
    metrics = Metrics()
    reply = call(path, method=method, metrics=metrics)
    check_status(reply, 405)
    assert reply.headers[b"allow"] == b"GET"
    assert reply.document["reason"] == "MethodNotAllowed"
    assert reply.cause == "MethodNotAllowed"
    assert not metrics.questions


@pytest.mark.parametrize("query", ["watch=true", "watch=1", "watch", "watch=", "watch=yes", "watch=true&watch=false"])
def test_m9_watch_is_a_405_status(query: str) -> None:
    """M9: what Kubernetes takes for a watch is refused, never answered as a list."""
    metrics = Metrics()
    reply = call(f"{ROOT}/namespaces/n/m?{query}", metrics=metrics)
    check_status(reply, 405)
    assert reply.cause == "MethodNotAllowed"
    assert not metrics.questions


@pytest.mark.parametrize("query", ["watch=false", "watch=0", "watch=FALSE", "limit=5", "timeout=3s", "fieldSelector="])
def test_parameter_that_asks_for_nothing_more_is_harmless(query: str) -> None:
    """A client may send what does not apply here."""
    assert call(f"{ROOT}/namespaces/n/m?{query}").code == 200


@pytest.mark.parametrize(
    ("query", "selector"),
    [
        ("labelSelector=queue%3Da", "queue=a"),
        ("labelSelector=queue=a", "queue=a"),
        ("labelSelector=queue+in+%28a%2Cb%29", "queue in (a,b)"),
        ("labelSelector=queue%20in%20(a,b)", "queue in (a,b)"),
        ("labelSelector=", ""),
        ("labelselector=queue%3Da", ""),
        ("label%53elector=queue%3Da", "queue=a"),
        ("a=1&labelSelector=x%26y&b", "x&y"),
        ("labelSelector=caf%C3%A9", "café"),
        ("labelSelector=a;b", "a;b"),
    ],
)
def test_label_selector_reaches_the_question_decoded(query: str, selector: str) -> None:
    """The selector is the parameter's text, with + and %20 both blanks."""
    metrics = Metrics()
    assert call(f"{ROOT}/namespaces/n/m?{query}", metrics=metrics).code == 200
    assert metrics.questions == [Question("n", "m", selector)]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(b"labelSelector=a%3Db&labelSelector=c%3Dd", id="two-selectors"),
        pytest.param(b"labelSelector=a%3Db&labelSelector=", id="selector-and-empty"),
        pytest.param(b"labelSelector=%ff", id="broken-utf-8"),
        pytest.param(b"labelSelector=\xff", id="raw-bytes"),
        pytest.param(b"x=%ed%a0%80", id="surrogate"),
        pytest.param(b"fieldSelector=a%3Db", id="field-selector"),
        pytest.param(b"fieldSelector=a%3Db&fieldSelector=", id="field-selector-and-empty"),
        pytest.param(b"fieldSelector=&fieldSelector=a", id="empty-and-field-selector"),
    ],
)
def test_filter_that_cannot_be_one_is_refused(query: bytes) -> None:
    """A filter is never ignored: that would answer with more than was asked for."""
    metrics = Metrics()
    reply = call(f"{ROOT}/namespaces/n/m?".encode() + query, metrics=metrics)
    check_status(reply, 400)
    assert reply.cause == "BadSelector"
    assert not metrics.questions


@pytest.mark.parametrize(
    ("query", "agent", "is_pretty"),
    [
        ("", b"kube-controller-manager/v1.36", False),
        ("", b"curl/8.5", True),
        ("", b"Mozilla/5.0 (X11)", True),
        ("?pretty", b"curl/8.5", True),
        ("?pretty=true", b"x", True),
        ("?pretty=1", b"x", True),
        ("?pretty=false", b"curl/8.5", False),
        ("?pretty=0", b"curl/8.5", False),
        ("?pretty=maybe", b"curl/8.5", False),
    ],
)
def test_pretty_is_for_people(query: str, agent: bytes, is_pretty: bool) -> None:  # noqa: FBT001 - a table
    """Indented where asked for, or for curl and browsers; errors too."""
    for metrics in (Metrics(), Metrics(NoSamples())):
        reply = call(f"{ROOT}/namespaces/n/m{query}", headers=((b"user-agent", agent),), metrics=metrics)
        assert (b"\n" in reply.body) == is_pretty


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param(b"application/vnd.kubernetes.protobuf,application/json", id="D9"),
        pytest.param(b"application/vnd.kubernetes.protobuf", id="D9-only"),
        pytest.param(b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", id="D10"),
        pytest.param(b"text/html", id="html"),
        pytest.param(b"\xff;;q=,,", id="broken"),
    ],
)
def test_d9_d10_answer_is_json_whatever_accept_prefers(accept: bytes) -> None:
    """D9, D10: values, errors and discovery are application/json, never 406."""
    headers = ((b"accept", accept),)
    reply = call(f"{ROOT}/namespaces/n/m", headers=headers)
    assert (reply.code, reply.headers[b"content-type"]) == (200, b"application/json")
    assert reply.document["kind"] == "ExternalMetricValueList"
    check_status(call(f"{ROOT}/namespaces/n/m", headers=headers, metrics=Metrics(NoSamples())), 404)
    reply = call(ROOT, headers=headers)
    assert reply.document["kind"] == "APIResourceList"


def test_error_is_answered_with_its_status() -> None:
    """An error of the use case becomes its Status, naming the metric as asked."""
    reply = call(f"{ROOT}/namespaces/n/Depth", metrics=Metrics(NoSamples()))
    check_status(reply, 404)
    assert reply.cause == "NoSamples"
    assert 'metric "Depth": query returned no samples' in reply.document["message"]


def test_d6_unknown_metric_says_which_adapter_answered() -> None:
    """D6: a request made for another adapter is told who got it."""
    reply = call(
        f"{ROOT}/namespaces/n/s0-prometheus?labelSelector=scaledobject.keda.sh%2Fname%3Dx",
        metrics=Metrics(UnknownMetric()),
    )
    check_status(reply, 404)
    assert "depthgauge" in reply.document["message"]
    assert "s0-prometheus" in reply.document["message"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_discovery_lists_group_version_and_metrics(slash: str) -> None:
    """D7: group and version are always there, with and without a trailing slash."""
    groups = call(f"/apis{slash}").document
    assert groups["kind"] == "APIGroupList"
    assert [group["name"] for group in groups["groups"]] == ["external.metrics.k8s.io"]
    group = call(f"/apis/external.metrics.k8s.io{slash}").document
    assert group["kind"] == "APIGroup"
    assert group["preferredVersion"]["groupVersion"] == "external.metrics.k8s.io/v1beta1"
    resources = call(f"{ROOT}{slash}", names=lambda: ["b", "a"]).document
    assert resources["kind"] == "APIResourceList"
    assert [resource["name"] for resource in resources["resources"]] == ["a", "b"]
    assert all(resource["namespaced"] is True and resource["verbs"] == ["get"] for resource in resources["resources"])


def test_d1_discovery_is_never_empty() -> None:
    """D1: without a rule there is one entry still."""
    assert len(call(ROOT, names=list).document["resources"]) == 1


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_is_answered_without_asking_anything(path: str) -> None:
    """D2: probes do not depend on a backend."""
    metrics = Metrics(NoSamples())
    assert call(path, metrics=metrics).code == 200
    assert not metrics.questions


def test_d11_fault_of_our_own_is_a_status_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """D11: an unexpected exception on the hot path is a 500 Status without its text, and one log record."""
    reply = call(f"{ROOT}/namespaces/n/m", metrics=Metrics(ZeroDivisionError("secret")))
    check_status(reply, 500)
    assert b"secret" not in reply.body
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info is not None


def test_d11_fault_that_an_evaluation_has_logged_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    """Two hundred who waited for one fault are one log record, the evaluation's own."""
    check_status(call(f"{ROOT}/namespaces/n/m", metrics=Metrics(EvaluationFault("x"))), 500)
    assert not caplog.records


def test_d11_fault_in_discovery_is_a_status_too(caplog: pytest.LogCaptureFixture) -> None:
    """D11: the framework's own "Internal Server Error" text never gets out."""

    def fail() -> list[str]:
        raise ZeroDivisionError("secret")

    reply = call(ROOT, names=fail)
    check_status(reply, 500)
    assert b"secret" not in reply.body
    assert len(caplog.records) == 1


raw_segments = st.binary(max_size=12).map(lambda raw: quote(raw, safe="/:%?").encode()) | st.sampled_from(
    [b"..", b"%", b"%2", b"%2F", b"%00", b"n", b"namespaces", b"", b"//", b"%C3%A9", b"\xff", b"m"]
)
raw_paths = st.lists(raw_segments, max_size=4).map(b"/".join)
prefixes = st.sampled_from([b"/apis/", b"/apis", f"{ROOT}/".encode(), f"{ROOT}/namespaces/".encode()])
raw_queries = st.one_of(
    st.binary(max_size=30),
    st.dictionaries(
        st.sampled_from(["labelSelector", "fieldSelector", "watch", "pretty", "x"]), st.text(max_size=10)
    ).map(lambda pairs: urlencode(pairs).encode()),
)
header_lists = st.lists(
    st.tuples(
        st.sampled_from([b"accept", b"user-agent", b"content-type", b"cookie", b"host", b"content-length"]),
        st.binary(max_size=20),
    ),
    max_size=3,
).map(tuple)
answering = Application(Metrics(), lambda: ["depth"])
methods = st.sampled_from(["GET", "GET", "GET", "POST", "HEAD", "DELETE", "OPTIONS", "CONNECT", "X"])


@given(prefixes, raw_paths, raw_queries, header_lists, methods)
@example(f"{ROOT}/namespaces/".encode(), b"n/m", b"labelSelector=%", (), "GET")
@example(f"{ROOT}/namespaces/".encode(), b"n/m", b"", ((b"user-agent", b""),), "GET")
def test_whatever_is_asked_below_apis_is_answered_in_json_and_never_with_a_fault(
    prefix: bytes, path: bytes, query: bytes, headers: tuple[tuple[bytes, bytes], ...], method: str
) -> None:
    """No path, query string, header or method gives anything but JSON, nor a 500; every error is a Status."""
    target = prefix + path.replace(b"?", b"%3F") + (b"?" + query if query else b"")
    reply = call(target, method=method, headers=headers, application=answering)
    assert reply.headers[b"content-type"].split(b";")[0] == b"application/json"
    assert reply.code in {200, 400, 404, 405}
    if reply.code != 200:
        check_status(reply, reply.code)
    assert Reason.BAD_SELECTOR.code != reply.code or reply.cause == "BadSelector"
