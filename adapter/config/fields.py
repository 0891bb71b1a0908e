"""The kinds of value that keys take: each checks one value and is described in the JSON Schema."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from adapter.config.durations import DURATION_PATTERN, BadDuration, parse_duration_s
from adapter.domain.promql import BadTemplate, parse_template
from adapter.domain.selectors import Operator, parse_selector
from adapter.errors import BadSelector

METRIC_NAME_LIMIT_CHARS: Final = 253
RESOLUTION_MIN_S: Final = 1.0
RESOLUTION_MAX_S: Final = 60.0

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BACKEND_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_OWN_HEADERS: Final = frozenset({"content-length", "content-type", "transfer-encoding", "connection", "accept"})
_OWN_PARAMS: Final = frozenset({"query", "time", "timeout"})


def find_metric_name_problem(name: str) -> str:
    """Return why *name* cannot be a metric's name; nothing for a good one.

    Source: Kubernetes, IsValidPathSegmentName of k8s.io/apimachinery/pkg/api/validation/path; 253 as for object names.
    """
    if not name:
        return "a metric name must not be empty"
    if name in (".", ".."):
        return 'a metric name must not be "." or ".."'
    if "/" in name or "%" in name:
        return 'a metric name is one segment of a URL path: no "/" and no "%"'
    if len(name) > METRIC_NAME_LIMIT_CHARS:
        return f"{len(name)} characters where at most {METRIC_NAME_LIMIT_CHARS} are allowed"
    if not name.isprintable() or name != name.strip():
        return "a metric name must not have control characters, or blanks at its ends"
    return ""


def _refuse(detail: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{detail}", {"detail": detail})


def _check(find_problem: Callable[[str], str]) -> AfterValidator:
    def check(value: str) -> str:
        if detail := find_problem(value):
            raise _refuse(detail)
        return value

    return AfterValidator(check)


def _find_text_problem(text: str) -> str:
    return "" if text.strip() else "must not be empty"


def _find_path_problem(path: str) -> str:
    if not path.strip():
        return "expected the path of a file"
    return "" if path.isprintable() else "a path must not have line breaks or control characters"


def _find_query_problem(query: str) -> str:
    if not query.strip():
        return "expected PromQL, such as sum(queue_length)"
    try:
        parse_template(query)
    except BadTemplate as error:
        return str(error)
    return ""


def _find_url_problem(url: str) -> str:
    expected = "expected the backend's URL, such as http://prometheus.monitoring.svc:9090"
    if not url.isprintable() or " " in url:
        return f"blanks and control characters cannot stand in a URL; {expected}"
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        return f"{error}; {expected}"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return f"needs the scheme http or https, and a host; {expected}"
    if "@" in parts.netloc:
        return "credentials in a URL would leak into logs; use basicAuth or bearerTokenFile"
    if "?" in url or "#" in url:
        return "a query or fragment cannot stand here; extra parameters go under params"
    return ""


def _find_backend_name_problem(name: str) -> str:
    return "" if _BACKEND_NAME.fullmatch(name) else 'expected letters, digits, "-", "_" and ".", at most 63'


def _find_namespace_problem(name: str) -> str:
    return "" if _DNS_LABEL.fullmatch(name) else "expected a namespace's name, such as team-a"


def _find_label_key_problem(key: str) -> str:
    try:
        requirements = parse_selector(key).requirements
    except BadSelector as error:
        return f"not a Kubernetes label key: {error.detail}"
    if len(requirements) == 1 and requirements[0].operator is Operator.EXISTS and requirements[0].key == key:
        return ""
    return "not a Kubernetes label key such as app.kubernetes.io/name"


def _find_label_value_problem(value: str) -> str:
    try:
        requirements = parse_selector(f"key={value}").requirements
    except BadSelector as error:
        return f"not a Kubernetes label value: {error.detail}"
    if len(requirements) == 1 and requirements[0].operator is Operator.EQUALS and requirements[0].values == (value,):
        return ""
    return "not a Kubernetes label value such as login"


def _find_header_name_problem(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        return "not an HTTP header name"
    return "this header is set by depthgauge itself" if name.lower() in _OWN_HEADERS else ""


def _find_header_value_problem(value: str) -> str:
    if _HEADER_VALUE.fullmatch(value):
        return ""
    return "a header's value must be printable ASCII, without line breaks and without blanks at its ends"


def _find_param_name_problem(name: str) -> str:
    if not name.strip():
        return "a parameter needs a name"
    return "this parameter is set by depthgauge itself" if name in _OWN_PARAMS else ""


def _check_duration(least_s: float = 0.0, most_s: float | None = None, *, zero: bool = True) -> AfterValidator:
    def find_problem(text: str) -> str:
        try:
            duration_s = parse_duration_s(text)
        except BadDuration as error:
            return str(error)
        if duration_s == 0 and not zero:
            return "must be more than 0s"
        if duration_s < least_s or (most_s is not None and duration_s > most_s):
            return f"expected between {least_s:g}s and {most_s:g}s"
        return ""

    return _check(find_problem)


def _accept_zero(value: Any) -> Any:  # noqa: ANN401 - whatever the YAML holds
    return "0s" if value == 0 and type(value) is int else value


_DURATION_SCHEMA: Final = {"type": "string", "minLength": 1, "pattern": DURATION_PATTERN}
_ZERO_OR_DURATION_SCHEMA: Final = {"anyOf": [{"const": 0}, _DURATION_SCHEMA]}
_QUERY_SCHEMA: Final = {"type": "string", "pattern": r"\S"}
_TEXT_SCHEMA: Final = {"type": "string", "pattern": r"\S"}

Text = Annotated[str, _check(_find_text_problem), WithJsonSchema(_TEXT_SCHEMA)]
FilePath = Annotated[str, _check(_find_path_problem), WithJsonSchema(_TEXT_SCHEMA)]
Query = Annotated[str, _check(_find_query_problem), WithJsonSchema(_QUERY_SCHEMA)]
Url = Annotated[str, _check(_find_url_problem), WithJsonSchema({"type": "string", "pattern": "^https?://[^@?# ]+$"})]
MetricName = Annotated[
    str,
    _check(find_metric_name_problem),
    WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": METRIC_NAME_LIMIT_CHARS, "pattern": r"^(?!\.{1,2}$)[^/%]+$"}
    ),
]
BackendName = Annotated[
    str,
    _check(_find_backend_name_problem),
    Field(json_schema_extra={"pattern": f"^{_BACKEND_NAME.pattern}$"}),
]
NamespaceName = Annotated[
    str, _check(_find_namespace_problem), Field(json_schema_extra={"pattern": f"^{_DNS_LABEL.pattern}$"})
]
LabelKey = Annotated[str, _check(_find_label_key_problem)]
LabelValue = Annotated[str, _check(_find_label_value_problem)]
HeaderName = Annotated[str, _check(_find_header_name_problem)]
HeaderValue = Annotated[str, _check(_find_header_value_problem)]
ParamName = Annotated[str, _check(_find_param_name_problem)]
Timeout = Annotated[str, _check_duration(zero=False), WithJsonSchema(_DURATION_SCHEMA)]
Resolution = Annotated[str, _check_duration(RESOLUTION_MIN_S, RESOLUTION_MAX_S), WithJsonSchema(_DURATION_SCHEMA)]
Duration = Annotated[str, BeforeValidator(_accept_zero), _check_duration(), WithJsonSchema(_ZERO_OR_DURATION_SCHEMA)]
