"""Kubernetes JSON: the list of values, and the Status that stands in for one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from adapter.domain.answers import Answer
from adapter.errors import MetricError, Reason, clip_text

GROUP = "external.metrics.k8s.io"
VERSION = "v1beta1"
GROUP_VERSION = f"{GROUP}/{VERSION}"
MESSAGE_LIMIT_BYTES = 1024

_NAME_LIMIT = 253


def encode_json(document: Any, *, is_pretty: bool = False) -> bytes:  # noqa: ANN401 - any JSON document
    """Return *document* as JSON, indented for people if *is_pretty*."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if is_pretty else None)


def build_value_list(answer: Answer, metric: str) -> dict[str, Any]:
    """Return an ExternalMetricValueList; *metric* is the name as it was asked.

    Source: k8s.io/metrics pkg/apis/external_metrics/v1beta1.
    """
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": GROUP_VERSION,
        "metadata": {},
        "items": [
            {
                "metricName": metric,
                "metricLabels": item.labels,
                "timestamp": _format_time(int(item.timestamp_s)),
                "value": str(item.quantity),
            }
            for item in answer.items
        ],
    }


def build_error_status(error: MetricError, metric: str) -> dict[str, Any]:
    """Return the Status of *error*: the message names the metric, if it is about one; the cause's reason is ours."""
    if not metric:
        return build_plain_status(error.reason.code, error.reason.status_reason, error.describe(), cause=error.reason)
    name = clip_text(metric, _NAME_LIMIT)
    message = _limit_bytes(f'metric "{name}": {error.describe()}')
    details = {"name": name, "group": GROUP, "causes": [{"reason": str(error.reason), "message": message}]}
    return _build_status(error.reason.code, error.reason.status_reason, message, details)


def build_plain_status(code: int, reason: str, message: str, *, cause: Reason | None = None) -> dict[str, Any]:
    """Return a Status for what is not about a metric: a wrong path, a fault of our own."""
    message = _limit_bytes(message)
    details = {"causes": [{"reason": str(cause), "message": message}]} if cause else {}
    return _build_status(code, reason, message, details)


def _build_status(code: int, reason: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def _limit_bytes(text: str) -> str:
    """Return *text* on one line and in at most 1 KiB of UTF-8, the cut shown by an ellipsis."""
    line = " ".join(text.split())
    encoded = line.encode()
    if len(encoded) <= MESSAGE_LIMIT_BYTES:
        return line
    return encoded[: MESSAGE_LIMIT_BYTES - len("…".encode())].decode(errors="ignore") + "…"


@lru_cache(1024)  # the items of one tick share a few
def _format_time(whole_s: int) -> str:
    """Return RFC 3339 with whole seconds, as metav1.Time has them."""
    return datetime.fromtimestamp(whole_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
