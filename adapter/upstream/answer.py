"""What a Prometheus-compatible server's HTTP answer means: samples, or the reason why there are none.

Pure: bytes in, values or errors out. The shapes are those of the Prometheus HTTP API ("Format overview" and
"Instant queries"); Thanos, Mimir and VictoriaMetrics follow them, with the additions named below.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NoReturn

import orjson

from adapter.domain.samples import QueryResult, Sample
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    MetricError,
    WrongResultType,
    clip_text,
)

WARNINGS_LIMIT = 20
"""Warnings kept of one answer; Thanos may send one for every store and block."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def decode_answer(body: bytes, *, timeout_s: float) -> QueryResult:
    """Return the result in the *body* of a 2xx JSON answer to an instant query.

    Shape:  0..n samples of a vector, or the one of a scalar; value texts untouched, `__name__` dropped.
            VictoriaMetrics says `isPartial` at the top level; `infos` are left out.
    Units:  timestamps are Unix seconds; *timeout_s* is the deadline that was given, for the error.
    Raises: WrongResultType for matrix, string and native histograms, also empty ones; DeadlineExceeded where the error
            says timeout; BackendRefused for everything that is no success, naming what is malformed.
    Source: Prometheus HTTP API, /api/v1/query.
    """
    answer = _parse_object(body)
    status = answer.get("status")
    if status == "error":
        raise _judge_api_error(answer, HTTPStatus.OK, timeout_s=timeout_s)
    if status != "success":
        _refuse('status is neither "success" nor "error"')
    data = answer.get("data")
    if not isinstance(data, dict):
        _refuse("data is not an object")
    kind = data.get("resultType")
    if not isinstance(kind, str):
        _refuse("data.resultType is not a string")
    result = data.get("result")
    warnings = _read_warnings(answer.get("warnings"))
    is_partial = _read_flag(answer.get("isPartial"), "isPartial")
    match kind:
        case "vector":
            if not isinstance(result, list):
                _refuse("data.result of a vector is not an array")
            samples = tuple(_read_series(element, index) for index, element in enumerate(result))
            return QueryResult(samples=samples, kind="vector", warnings=warnings, is_partial=is_partial)
        case "scalar":
            timestamp_s, text = _read_point(result, "data.result of a scalar")
            sample = Sample(labels={}, value=text, timestamp_s=timestamp_s)
            return QueryResult(samples=(sample,), kind="scalar", warnings=warnings, is_partial=is_partial)
        case _:
            raise WrongResultType(got=clip_text(kind, 80) or "an unnamed type")


def judge_error(status: int, content_type: str, body: bytes, *, timeout_s: float, location: str = "") -> MetricError:
    """Return the error that an answer with a *status* other than 2xx stands for.

    Shape:  *body* may be cut short; *location* is where a redirect points, already without query and user info.
    Raises: nothing.
    Source: Prometheus HTTP API, "Format overview": 400 bad_data, 422 execution, 503 timeout and canceled.
    """
    if is_json(content_type):
        try:
            answer = _parse_object(body)
        except BackendRefused:
            answer = {}
        if answer.get("status") == "error":
            return _judge_api_error(answer, status, timeout_s=timeout_s)
    text = _plain_text(content_type, body)
    return _judge_status(status, _join(str(status), text), BadQuery(str(status), text), location=location)


def is_json(content_type: str) -> bool:
    """Tell whether an answer of this Content-Type can be JSON; one without a type can."""
    media_type = media_type_of(content_type)
    return media_type in {"", "application/json"} or media_type.endswith("+json")


def media_type_of(content_type: str) -> str:
    """Return the media type alone: `text/html` for `Text/HTML; charset=utf-8`."""
    return clip_text(content_type.partition(";")[0].strip().lower(), 80)


def _judge_api_error(answer: Mapping[str, object], status: int, *, timeout_s: float) -> MetricError:
    """Return what a JSON body with `status: error` stands for; its errorType says more than the HTTP status."""
    error_type = _text_of(answer.get("errorType"), 80)
    text = _text_of(answer.get("error"))
    said = _join(error_type, text)
    if error_type == "timeout":
        return DeadlineExceeded(deadline_s=timeout_s, detail=f"the backend says {said}")
    if error_type == "canceled" and status != HTTPStatus.OK:
        # The server gave up the query: it shuts down, or a proxy before it hung up. The query itself may be fine.
        return BackendUnavailable(detail=_join(str(status), said))
    if status == HTTPStatus.OK:
        return BackendRefused(detail=_join("status error with HTTP 200", said))
    return _judge_status(status, _join(str(status), said), BadQuery(error_type or str(status), text))


def _judge_status(status: int, said: str, bad_query: BadQuery, *, location: str = "") -> MetricError:
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return bad_query
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BackendUnavailable(detail=said)
    if status in _REDIRECTS:
        target = clip_text(location, 160) or "nowhere"
        return BackendRefused(
            detail=f"{status}, a redirect to {target}; redirects are not followed, give the final url"
        )
    return BackendRefused(detail=said)


def _plain_text(content_type: str, body: bytes) -> str:
    """Return the text of an error page; markup tells a person nothing, so its type stands for it."""
    media_type = media_type_of(content_type)
    if media_type in {"text/html", "application/xhtml+xml"}:
        return f"({media_type})"
    return clip_text(body.decode("utf-8", "replace").replace("\x00", ""))


def _parse_object(body: bytes) -> dict[str, object]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        answer = None
        problem = clip_text(str(exc), 120)
    else:
        problem = ""
    if problem:
        # Raised out here, without the cause: a JSONDecodeError holds the whole document.
        _refuse(f"not JSON ({problem})")
    if not isinstance(answer, dict):
        _refuse("not a JSON object")
    return answer


def _read_series(element: object, index: int) -> Sample:
    if not isinstance(element, dict):
        _refuse(f"data.result[{index}] is not an object")
    if "histogram" in element:
        raise WrongResultType(got="native histogram")
    metric = element.get("metric")
    if not isinstance(metric, dict):
        _refuse(f"data.result[{index}].metric is not an object")
    for label_value in metric.values():
        if not isinstance(label_value, str):
            _refuse(f"data.result[{index}].metric has a label value that is not a string")
    metric.pop("__name__", None)
    timestamp_s, text = _read_point(element.get("value"), f"data.result[{index}].value")
    return Sample(labels=metric, value=text, timestamp_s=timestamp_s)


def _read_point(point: object, where: str) -> tuple[float, str]:
    if not isinstance(point, list) or len(point) != 2:
        _refuse(f'{where} is not [seconds, "number"]')
    timestamp_s, text = point
    if not isinstance(timestamp_s, int | float) or isinstance(timestamp_s, bool):
        _refuse(f"{where}[0] is not a number of seconds")
    if not isinstance(text, str):
        _refuse(f"{where}[1] is not a string")
    return float(timestamp_s), text


def _read_warnings(warnings: object) -> tuple[str, ...]:
    if warnings is None:
        return ()
    if not isinstance(warnings, list) or not all(isinstance(warning, str) for warning in warnings):
        _refuse("warnings is not an array of strings")
    kept = tuple(clip_text(warning) for warning in warnings[:WARNINGS_LIMIT])
    more = len(warnings) - len(kept)
    return (*kept, f"{more} more warnings") if more else kept


def _read_flag(flag: object, where: str) -> bool:
    if flag is None:
        return False
    if not isinstance(flag, bool):
        _refuse(f"{where} is neither true nor false")
    return flag


def _text_of(member: object, limit: int = 256) -> str:
    return clip_text(member, limit) if isinstance(member, str) else ""


def _join(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _refuse(what: str) -> NoReturn:
    raise BackendRefused(detail=f"a malformed answer: {what}")
