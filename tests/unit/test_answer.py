"""What a Prometheus answer means, without any network."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.samples import QueryResult, Sample
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    MetricError,
    WrongResultType,
)
from adapter.upstream.answer import WARNINGS_LIMIT, decode_answer, is_json, judge_error

TIMEOUT_S = 4.5
JSON = "application/json"


def encode(kind: Any, result: Any, **members: Any) -> bytes:
    """Return a successful answer as bytes."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **members}).encode()


def decode(body: bytes) -> QueryResult:
    """Decode *body* with the deadline of these tests."""
    return decode_answer(body, timeout_s=TIMEOUT_S)


def element(**members: Any) -> dict[str, Any]:
    """Return a good vector element with some members changed."""
    return {"metric": {"queue": "a"}, "value": [1.5, "5"]} | members


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("5", id="whole"),
        pytest.param("1e+06", id="exponent"),
        pytest.param("0.1000", id="trailing zeros"),
        pytest.param("-0", id="minus zero"),
        pytest.param("NaN", id="NaN"),
        pytest.param("+Inf", id="infinity"),
    ],
)
def test_answer_keeps_value_text_untouched(text: str) -> None:
    """A value's text reaches the caller as it was sent, with nothing rounded or rewritten."""
    result = decode(encode("vector", [element(value=[1700000000.123, text])]))

    assert result == QueryResult(samples=(Sample(labels={"queue": "a"}, value=text, timestamp_s=1700000000.123),))


def test_answer_drops_the_metric_name_and_keeps_order_of_series() -> None:
    """Labels come without `__name__`, series in the backend's order."""
    result = decode(
        encode("vector", [element(metric={"__name__": "q", "queue": "b"}), element(metric={"__name__": "q"})])
    )

    assert [sample.labels for sample in result.samples] == [{"queue": "b"}, {}]


def test_answer_is_empty_for_an_empty_vector() -> None:
    """An empty vector is a result without samples, not an error of the client."""
    assert decode(encode("vector", [])) == QueryResult(samples=())


def test_z9_scalar_is_one_sample_without_labels() -> None:
    """A scalar is one sample without labels, and says that it was a scalar."""
    result = decode(encode("scalar", [1700000000, "5"]))

    assert result == QueryResult(samples=(Sample(labels={}, value="5", timestamp_s=1700000000.0),), kind="scalar")


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        pytest.param("matrix", [{"metric": {}, "values": [[1, "5"]]}], id="Z10 matrix"),
        pytest.param("matrix", [], id="Z10 empty matrix"),
        pytest.param("string", [1, "42"], id="Z13 string"),
        pytest.param("streams", [], id="another product's type"),
    ],
)
def test_answer_refuses_other_result_types(kind: str, result: Any) -> None:
    """Whatever is neither vector nor scalar is named, also when it is empty."""
    with pytest.raises(WrongResultType) as caught:
        decode(encode(kind, result))

    assert caught.value.got == kind


def test_answer_refuses_native_histograms_beside_plain_samples() -> None:
    """One native histogram makes the whole result unusable: a partial list would be too low a sum."""
    with pytest.raises(WrongResultType) as caught:
        decode(encode("vector", [element(), {"metric": {}, "histogram": [1, {"count": "1", "sum": "1"}]}]))

    assert caught.value.got == "native histogram"


def test_p1_answer_carries_warnings_and_drops_infos() -> None:
    """Warnings come with the result; infos (P2) are harmless and left out."""
    result = decode(encode("vector", [element()], warnings=["store down"], infos=["not a counter"]))

    assert (result.warnings, result.is_partial) == (("store down",), False)


def test_answer_carries_is_partial() -> None:
    """VictoriaMetrics' own flag comes with the result."""
    assert decode(encode("vector", [], isPartial=True)).is_partial is True


def test_answer_bounds_warnings_in_number_and_length() -> None:
    """A thousand long warnings become few short ones and a count of the rest."""
    result = decode(encode("vector", [], warnings=["w" * 1000] * 1000))

    assert len(result.warnings) == WARNINGS_LIMIT + 1
    assert max(map(len, result.warnings)) == 256
    assert result.warnings[-1] == "980 more warnings"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b'{"status":', "not JSON", id="cut off"),
        pytest.param(b"\xff\xfe", "not JSON", id="binary"),
        pytest.param(b"[" * 5000, "not JSON", id="deep nesting"),
        pytest.param(b"null", "object", id="null"),
        pytest.param(b"[]", "object", id="array"),
        pytest.param(b"{}", "status", id="no status"),
        pytest.param(b'{"status":"success"}', "data ", id="no data"),
        pytest.param(b'{"status":"success","data":null}', "data ", id="null data"),
        pytest.param(b'{"status":"success","data":{"result":[]}}', "data.resultType", id="no type"),
        pytest.param(encode(5, []), "data.resultType", id="type is a number"),
        pytest.param(encode("vector", None), "data.result", id="null result"),
        pytest.param(encode("vector", {}), "data.result", id="result is an object"),
        pytest.param(encode("vector", [element(), 5]), "data.result[1]", id="element is a number"),
        pytest.param(encode("vector", [{"value": [1, "5"]}]), "data.result[0].metric", id="no metric"),
        pytest.param(encode("vector", [element(metric={"a": 1})]), "data.result[0].metric", id="label is a number"),
        pytest.param(encode("vector", [{"metric": {}}]), "data.result[0].value", id="no value"),
        pytest.param(encode("vector", [element(value=[1])]), "data.result[0].value", id="short value"),
        pytest.param(encode("vector", [element(value=[1, 5])]), "data.result[0].value[1]", id="value is a number"),
        pytest.param(encode("vector", [element(value=[1, None])]), "data.result[0].value[1]", id="value is null"),
        pytest.param(encode("vector", [element(value=["1", "5"])]), "data.result[0].value[0]", id="time is text"),
        pytest.param(encode("vector", [element(value=[True, "5"])]), "data.result[0].value[0]", id="time is true"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"scalar","result":[1e999,"5"]}}', "", id="time beyond float64"
        ),
        pytest.param(encode("scalar", []), "data.result", id="empty scalar"),
        pytest.param(encode("vector", [], warnings="w"), "warnings", id="warnings is text"),
        pytest.param(encode("vector", [], warnings=[1]), "warnings", id="warning is a number"),
        pytest.param(encode("vector", [], isPartial="true"), "isPartial", id="isPartial is text"),
    ],
)
def test_answer_names_what_is_malformed(body: bytes, named: str) -> None:
    """A malformed answer is refused, and the error says where it is malformed."""
    with pytest.raises(BackendRefused) as caught:
        decode(body)

    assert caught.value.detail.startswith("a malformed answer: ")
    assert named in caught.value.detail


def test_answer_with_status_error_is_refused_in_spite_of_http_200() -> None:
    """`status: error` with HTTP 200 is no result, and its text is quoted."""
    with pytest.raises(BackendRefused) as caught:
        decode(b'{"status":"error","errorType":"internal","error":"boom"}')

    assert "internal: boom" in caught.value.detail


def test_answer_with_error_type_timeout_is_a_deadline_at_any_status() -> None:
    """Prometheus' own timeout is a deadline, whatever the HTTP status is."""
    body = b'{"status":"error","errorType":"timeout","error":"query timed out"}'

    with pytest.raises(DeadlineExceeded) as caught:
        decode(body)
    judged = [judge_error(status, JSON, body, timeout_s=TIMEOUT_S) for status in (400, 422, 503)]

    assert caught.value.deadline_s == TIMEOUT_S
    assert [type(error) for error in judged] == [DeadlineExceeded] * 3


@pytest.mark.parametrize(
    ("status", "content_type", "body", "expected", "quoted"),
    [
        pytest.param(
            400, JSON, b'{"status":"error","errorType":"bad_data","error":"no"}', BadQuery, "bad_data: no", id="B4"
        ),
        pytest.param(
            422,
            JSON,
            b'{"status":"error","errorType":"execution","error":"too many samples"}',
            BadQuery,
            "execution: too many samples",
            id="422 execution",
        ),
        pytest.param(400, "text/plain", b"what?", BadQuery, "400: what?", id="400 text"),
        pytest.param(
            401, "text/plain", b"no org id\n", BackendRefused, "401: no org id", id="B11 Mimir without tenant"
        ),
        pytest.param(403, "text/html", b"<html>secret</html>", BackendRefused, "403: (text/html)", id="B1 HTML"),
        pytest.param(404, "text/plain", b"404 page not found", BackendRefused, "404: 404 page", id="404"),
        pytest.param(405, "text/plain", b"", BackendRefused, "405", id="405"),
        pytest.param(304, "", b"", BackendRefused, "304", id="3xx that is no redirect"),
        pytest.param(302, "", b"", BackendRefused, "302, a redirect to http://h/x", id="redirect"),
        pytest.param(429, "text/plain", b"slow down", BackendUnavailable, "429: slow down", id="429"),
        pytest.param(500, "text/plain", b"", BackendUnavailable, "500", id="500"),
        pytest.param(503, "text/plain", b"no healthy upstream", BackendUnavailable, "no healthy upstream", id="B6"),
        pytest.param(599, JSON, b"{", BackendUnavailable, "599", id="599 broken JSON"),
        pytest.param(
            503,
            JSON,
            b'{"status":"error","errorType":"canceled","error":"shutting down"}',
            BackendUnavailable,
            "canceled: shutting down",
            id="canceled",
        ),
        pytest.param(
            422,
            JSON,
            b'{"status":"error","errorType":"canceled","error":"context canceled"}',
            BackendUnavailable,
            "canceled: context canceled",
            id="canceled as 422",
        ),
    ],
)
def test_answer_status_becomes_the_reason(
    status: int, content_type: str, body: bytes, expected: type[MetricError], quoted: str
) -> None:
    """Each HTTP status stands for one kind of error, which quotes the backend."""
    judged = judge_error(status, content_type, body, timeout_s=TIMEOUT_S, location="http://h/x")

    assert type(judged) is expected
    assert quoted in judged.describe()


def test_answer_error_keeps_type_and_text_apart_for_a_bad_query() -> None:
    """The error's type and text are fields of their own."""
    body = b'{"status":"error","errorType":"bad_data","error":"1:5: parse error"}'
    judged = judge_error(400, JSON, body, timeout_s=TIMEOUT_S)

    assert isinstance(judged, BadQuery)
    assert (judged.error_type, judged.text) == ("bad_data", "1:5: parse error")


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param("application/json", True, id="plain"),
        pytest.param("Application/JSON; charset=utf-8", True, id="with charset"),
        pytest.param("application/problem+json", True, id="suffix"),
        pytest.param("", True, id="none"),
        pytest.param("text/html", False, id="html"),
        pytest.param("text/plain", False, id="text"),
        pytest.param("application/x-protobuf", False, id="protobuf"),
    ],
)
def test_answer_type_is_recognised_as_json(content_type: str, expected: bool) -> None:  # noqa: FBT001  a parameter
    """Only JSON types, and answers without a type, are read as JSON."""
    assert is_json(content_type) is expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def near(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return *good*, or anything else in its place."""
    return good | JSON_VALUES


def document(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return an object that may miss any of its members."""
    return st.fixed_dictionaries({}, optional={name: near(member) for name, member in members.items()})


POINTS = st.tuples(near(st.floats(allow_nan=False)), near(st.just("5"))).map(list)
SERIES = document(metric=st.dictionaries(st.text(max_size=8), st.text(max_size=8)), value=POINTS, histogram=POINTS)
RESULTS = st.lists(near(SERIES), max_size=4) | POINTS
KINDS = st.sampled_from(["vector", "scalar", "matrix", "string", ""])
ANSWERS = document(
    status=st.sampled_from(["success", "error"]),
    data=document(resultType=KINDS, result=RESULTS),
    warnings=st.lists(near(st.text(max_size=8)), max_size=3),
    isPartial=st.booleans(),
    errorType=st.sampled_from(["timeout", "canceled", "bad_data"]),
    error=st.text(max_size=20),
)


@given(near(ANSWERS).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_answer_of_any_shape_gives_samples_of_text_or_a_metric_error(body: bytes) -> None:
    """No JSON whatsoever, nor other bytes, makes decoding raise anything but an error with a Reason."""
    described = ""
    result = QueryResult(samples=())
    try:
        result = decode(body)
    except MetricError as error:
        described = error.describe()

    assert len(described) < 600
    for sample in result.samples:
        assert isinstance(sample.value, str)
        assert isinstance(sample.timestamp_s, float)
        assert all(isinstance(text, str) for pair in sample.labels.items() for text in pair)
        assert "__name__" not in sample.labels


@given(
    st.integers(100, 599).filter(lambda status: not 200 <= status < 300),
    st.sampled_from([JSON, "text/plain", "text/html", ""]),
    near(ANSWERS).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40),
    st.text(max_size=300),
)
def test_answer_error_of_any_shape_is_judged(status: int, content_type: str, body: bytes, location: str) -> None:
    """Every status with every body stands for an error that can be described within bounds."""
    judged = judge_error(status, content_type, body, timeout_s=TIMEOUT_S, location=location)

    assert isinstance(judged, MetricError)
    assert len(judged.describe()) < 600
