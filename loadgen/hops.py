"""One look at each hop of the chain: what the exporter, Prometheus and the adapter say now, or why they say nothing."""

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

READ_DEADLINE_S = 2.0
EXTERNAL_METRICS = "/apis/external.metrics.k8s.io/v1beta1"

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_1024 = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one hop said.

    Attributes:
        value: the number, or None where there was none.
        code: the HTTP status, or None where no answer came.
        reason: the Reason of an explicit error, as in the adapter's `details.causes`; else empty.
        message: why there is no number, for a person.
    """

    value: Decimal | None = None
    code: int | None = None
    reason: str = ""
    message: str = ""

    @property
    def is_explicit_error(self) -> bool:
        """Whether it is an answer that names its reason in place of a number."""
        return self.value is None and self.code is not None and self.code >= 400 and bool(self.reason)

    def describe(self) -> str:
        """Return the number or the error, for a person, on one line."""
        if self.value is not None:
            return f"{self.value.normalize():f}"
        head = " ".join(filter(None, (str(self.code or ""), self.reason)))
        return ": ".join(filter(None, (head, self.message)))


def parse_quantity(text: str) -> Decimal:
    """Return the number that a Kubernetes Quantity such as `1500m` or `52k` stands for.

    Raises: ValueError for anything else.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Quantity: {text!r}")
    digits, exponent, suffix = match.groups()
    if suffix in _POWERS_OF_1024:
        return Decimal(digits) * Decimal(1024) ** _POWERS_OF_1024[suffix]
    return Decimal(digits + (exponent or "")).scaleb(_POWERS_OF_TEN.get(suffix or "", 0))


def build_metric_url(adapter_url: str, metric: str, *, selector: str = "", namespace: str = "default") -> str:
    """Return the address at which the HPA would ask for *metric*."""
    path = (
        f"{EXTERNAL_METRICS}/namespaces/{urllib.parse.quote(namespace, safe='')}/{urllib.parse.quote(metric, safe='')}"
    )
    query = "?" + urllib.parse.urlencode({"labelSelector": selector}) if selector else ""
    return adapter_url + path + query


def read_exporter(url: str, metric: str, labels: dict[str, str]) -> Reading:
    """Return the sample of *metric* with *labels* that the exporter at *url* serves."""
    code, body, failure = _fetch(url)
    if code != 200:
        return Reading(code=code, message=failure or "no metrics")
    try:
        for family in text_string_to_metric_families(body.decode()):
            for sample in family.samples:
                if sample.name == metric and sample.labels == labels:
                    return Reading(code=code, value=Decimal(str(sample.value)))
    except ValueError as exc:
        return Reading(code=code, message=f"not readable: {exc}")
    return Reading(code=code, message="no sample")


def read_prometheus(url: str, promql: str) -> Reading:
    """Return the one sample that *promql* gives now at the Prometheus at *url*."""
    code, body, failure = _fetch(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': promql})}")
    document = _parse_json(body)
    if code != 200:
        return Reading(code=code, message=failure or str(document.get("error", "")))
    try:
        result = document["data"]["result"]
        if len(result) == 1:
            return Reading(code=code, value=Decimal(result[0]["value"][1]))
    except (KeyError, TypeError, IndexError, ArithmeticError):
        return Reading(code=code, message="not readable")
    return Reading(code=code, message=f"{len(result)} series" if result else "no sample")


def read_adapter(url: str) -> Reading:
    """Return the sum of the items that the adapter answers at *url*, or its Status.

    Source: k8s.io/metrics external.metrics/v1beta1; the HPA adds up the items.
    """
    code, body, failure = _fetch(url)
    if code is None:
        return Reading(message=failure)
    document = _parse_json(body)
    if code == 200:
        try:
            values = [parse_quantity(item["value"]) for item in document["items"]]
        except (KeyError, TypeError, ValueError):
            return Reading(code=code, message="not an ExternalMetricValueList")
        return Reading(code=code, value=sum(values, Decimal(0))) if values else Reading(code=code, message="no items")
    try:
        cause = document["details"]["causes"][0]
        return Reading(code=code, reason=str(cause["reason"]), message=str(document["message"]))
    except (KeyError, TypeError, IndexError):
        return Reading(code=code, message="not a Status that names its reason")


class _EveryAnswer(urllib.request.HTTPErrorProcessor):
    """Hands out answers of every status: an error is what is being looked for here."""

    def http_response(self, _request: urllib.request.Request, response: Any) -> Any:  # noqa: ANN401 - as typeshed has it
        return response


def _fetch(url: str) -> tuple[int | None, bytes, str]:
    """Return status, body and, where no answer came, the failure in words."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _EveryAnswer())
    try:
        with opener.open(url, timeout=READ_DEADLINE_S) as answer:
            return answer.status, answer.read(), ""
    except (OSError, http.client.HTTPException) as exc:
        cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
        if isinstance(cause, TimeoutError):
            return None, b"", f"no answer within {READ_DEADLINE_S:g} s"
        if isinstance(cause, ConnectionRefusedError):
            return None, b"", "connection refused"
        return None, b"", str(cause) or type(cause).__name__


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
