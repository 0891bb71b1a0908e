"""The wire: value lists and Statuses exactly as Kubernetes clients read them."""

import json
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.answers import Answer, Item
from adapter.domain.quantity import Quantity
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    BadSelector,
    DeadlineExceeded,
    ExpectedOne,
    MethodNotAllowed,
    MetricError,
    NamespaceNotAllowed,
    Negative,
    NoMatch,
    NoSamples,
    NotFinite,
    NotRepresentable,
    Overloaded,
    Partial,
    Reason,
    TooManySeries,
    UnknownMetric,
    UnmappedLabel,
    WrongResultType,
)
from adapter.server.wire import (
    MESSAGE_LIMIT_BYTES,
    build_error_status,
    build_plain_status,
    build_value_list,
    encode_json,
)

LABELS = {"queue": "a"}

# design.md 6, written out again: a changed table must fail here.
CONTRACT = {
    "UnknownMetric": (404, "NotFound"),
    "NoSamples": (404, "NotFound"),
    "NoMatch": (404, "NotFound"),
    "BadSelector": (400, "BadRequest"),
    "UnmappedLabel": (400, "BadRequest"),
    "Unauthenticated": (401, "Unauthorized"),
    "Forbidden": (403, "Forbidden"),
    "NamespaceNotAllowed": (403, "Forbidden"),
    "MethodNotAllowed": (405, "MethodNotAllowed"),
    "NotFinite": (500, "InternalError"),
    "Negative": (500, "InternalError"),
    "NotRepresentable": (500, "InternalError"),
    "WrongResultType": (500, "InternalError"),
    "TooManySeries": (500, "InternalError"),
    "ExpectedOne": (500, "InternalError"),
    "BadQuery": (500, "InternalError"),
    "BackendRefused": (500, "InternalError"),
    "BackendUnavailable": (503, "ServiceUnavailable"),
    "Stale": (503, "ServiceUnavailable"),
    "Incomplete": (503, "ServiceUnavailable"),
    "Partial": (503, "ServiceUnavailable"),
    "RequirementFailed": (503, "ServiceUnavailable"),
    "Overloaded": (503, "ServiceUnavailable"),
    "DeadlineExceeded": (504, "Timeout"),
}


def build_errors(text: str) -> list[MetricError]:
    """Return one error of each class, with *text* wherever somebody else's text may stand."""
    return [
        UnknownMetric(near=(text,)),
        NoSamples(added=text),
        NoMatch(wanted=text, series=3, missing_label=text, existing=(text,) * 30),
        BadSelector(selector=text, detail=text),
        UnmappedLabel(key=text),
        NamespaceNotAllowed(namespace=text),
        MethodNotAllowed(method=text),
        NotFinite(value="NaN", labels={"queue": text}),
        Negative(value="-1", labels={"queue": text}),
        NotRepresentable(value=text, limit="9223372036854775", labels={"queue": text}),
        WrongResultType(got=text),
        TooManySeries(got="2 series", limit="1"),
        ExpectedOne(count=3),
        BadQuery(error_type=text, text=text),
        BackendRefused(detail=text),
        BackendUnavailable(detail=text),
        Partial(warnings=(text,) * 5),
        Overloaded(waiting=64, places=16),
        DeadlineExceeded(deadline_s=5.0, detail=text),
    ]


def test_contract_names_every_reason_with_its_code() -> None:
    """The closed set of reasons is the documented one, each with its code and Kubernetes reason."""
    assert {reason.value: (reason.code, reason.status_reason) for reason in Reason} == CONTRACT


@pytest.mark.parametrize("error", build_errors("x"), ids=lambda error: str(error.reason))
def test_error_becomes_a_status_with_its_reason_and_code(error: MetricError) -> None:
    """kind, apiVersion, code, reason and causes are what client-go reads; the message names the metric."""
    status = build_error_status(error, "Queue_Depth")
    code, reason = CONTRACT[str(error.reason)]
    assert status["kind"] == "Status"
    assert status["apiVersion"] == "v1"
    assert status["status"] == "Failure"
    assert (status["code"], status["reason"]) == (code, reason)
    assert status["message"].startswith('metric "Queue_Depth": ')
    assert len(status["message"]) > len('metric "Queue_Depth": ')
    assert status["details"]["name"] == "Queue_Depth"
    assert status["details"]["group"] == "external.metrics.k8s.io"
    assert status["details"]["causes"] == [{"reason": str(error.reason), "message": status["message"]}]
    assert json.loads(encode_json(status)) == status


def test_three_ways_of_not_found_read_differently() -> None:
    """UnknownMetric, NoSamples and NoMatch are one code and three messages."""
    errors = (UnknownMetric(), NoSamples(), NoMatch(wanted="a=b", series=3))
    messages = {build_error_status(error, "m")["message"] for error in errors}
    assert len(messages) == 3


@given(st.text(min_size=1, max_size=30), st.sampled_from([1, 9, 300]), st.text(max_size=10))
def test_message_is_bounded_in_bytes_whatever_others_wrote(text: str, times: int, metric: str) -> None:
    """At most 1 KiB of UTF-8, cut between characters, on one line."""
    for error in build_errors(text * times):
        status = build_error_status(error, metric * times)
        encoded = status["message"].encode()
        assert len(encoded) <= MESSAGE_LIMIT_BYTES
        assert "\n" not in status["message"]
        assert "\ufffd" not in status["message"] or "\ufffd" in text + metric
        orjson.loads(encode_json(status))


@pytest.mark.parametrize("char", ["é", "深", "😀"])
def test_message_limit_is_used_up_to_the_last_character(char: str) -> None:
    """Multi-byte text is cut at 1024 bytes, not at 1024 characters and not far below; the cut is shown."""
    message = build_plain_status(500, "InternalError", char * 2000)["message"]
    assert MESSAGE_LIMIT_BYTES - 4 <= len(message.encode()) <= MESSAGE_LIMIT_BYTES
    assert message.endswith("…")
    assert set(message) == {char, "…"}


def test_message_of_exactly_the_limit_is_left_whole() -> None:
    """1024 bytes are allowed."""
    assert build_plain_status(500, "InternalError", "x" * 1024)["message"] == "x" * 1024
    assert len(build_plain_status(500, "InternalError", "x" * 1025)["message"].encode()) <= 1024


@pytest.mark.parametrize(
    "error",
    [
        BadQuery(error_type="bad_data", text="z" * 5000),
        BackendRefused(detail="z" * 5000),
        BackendUnavailable(detail="z" * 5000),
        Partial(warnings=("z" * 5000, "z" * 5000)),
        DeadlineExceeded(deadline_s=1, detail="z" * 5000),
    ],
    ids=lambda error: str(error.reason),
)
def test_text_of_a_backend_is_quoted_with_256_characters_at_most(error: MetricError) -> None:
    """A backend's body never fills the message."""
    assert build_error_status(error, "m")["message"].count("z") <= 256


def test_b4_error_type_and_text_of_the_backend_reach_the_reader() -> None:
    """B4: what Prometheus said about the query stands in the message."""
    message = build_error_status(BadQuery(error_type="bad_data", text="parse error: x"), "m")["message"]
    assert "bad_data" in message
    assert "parse error: x" in message


def test_m1_m5_value_list_names_the_metric_as_it_was_asked() -> None:
    """M1, M5: metricName is the asked spelling, in every item."""
    items = (
        Item(labels=LABELS, timestamp_s=1_700_000_000.9, quantity=Quantity(329_500_000_000)),
        Item(labels={}, timestamp_s=1_700_000_000.0, quantity=Quantity(0)),
    )
    document = json.loads(encode_json(build_value_list(Answer(items), "jobsqueued")))
    assert document == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "jobsqueued",
                "metricLabels": {"queue": "a"},
                "timestamp": "2023-11-14T22:13:20Z",
                "value": "329500m",
            },
            {"metricName": "jobsqueued", "metricLabels": {}, "timestamp": "2023-11-14T22:13:20Z", "value": "0"},
        ],
    }


@given(st.floats(0, 4e9), st.integers(0, 10**26))
def test_value_list_reads_back(timestamp_s: float, nanos: int) -> None:
    """The time is RFC 3339 of the second it fell in; the value is a string, never a JSON number."""
    item = Item(labels=LABELS, timestamp_s=timestamp_s, quantity=Quantity(nanos))
    (shown,) = json.loads(encode_json(build_value_list(Answer((item,)), "m")))["items"]
    assert datetime.strptime(shown["timestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() == int(
        timestamp_s
    )
    assert shown["value"] == str(Quantity(nanos))


def test_pretty_is_the_same_document_with_line_breaks() -> None:
    """`pretty` changes white space only."""
    document = build_plain_status(404, "NotFound", "x")
    assert b"\n" not in encode_json(document)
    assert encode_json(document, is_pretty=True).endswith(b"}\n")
    assert json.loads(encode_json(document, is_pretty=True)) == document
