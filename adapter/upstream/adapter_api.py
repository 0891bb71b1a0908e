"""The API of an adapter that runs somewhere: one question, one document."""

from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from adapter.errors import clip_text

_PATH: Final = "/apis/external.metrics.k8s.io/v1beta1/namespaces"
_TIMEOUT_S: Final = 30.0
_LIMIT_BYTES: Final = 32 * 1024 * 1024
_KINDS: Final = frozenset({"ExternalMetricValueList", "Status"})


class BadServerUrl(ValueError):
    """The URL cannot be an adapter's; `str()` says what is expected."""


class AdapterUnreachable(Exception):
    """Nobody answered, or somebody who is no external metrics API; `str()` says what to look at."""


def fetch_document(url: str, *, namespace: str, metric: str, selector: str) -> dict[str, Any]:
    """Return the ExternalMetricValueList, or the Status, that the adapter at *url* answers.

    No proxy of the environment is used, and no redirect followed.
    Raises: BadServerUrl, AdapterUnreachable.
    """
    base = _parse_url(url)
    target = f"{base}{_PATH}/{quote(namespace, safe='')}/{quote(metric, safe='')}"
    params = {"labelSelector": selector} if selector else {}
    try:
        with (
            httpx.Client(trust_env=False, timeout=_TIMEOUT_S) as client,
            client.stream("GET", target, params=params, headers={"Accept": "application/json"}) as response,
        ):
            body = _read(response)
            kind = f"HTTP {response.status_code} with {clip_text(response.headers.get('content-type', 'no type'), 60)}"
    except httpx.TimeoutException as error:
        raise AdapterUnreachable(
            f"no answer from {base} within {_TIMEOUT_S:g}s; does the adapter's log move?"
        ) from error
    except httpx.HTTPError as error:
        raise AdapterUnreachable(
            f"nothing usable answers at {base}: {clip_text(str(error) or type(error).__name__)}; "
            'is an adapter serving there? (its log says "serving url=...")'
        ) from error
    document = _parse(body)
    if document is None or document.get("kind") not in _KINDS:
        raise AdapterUnreachable(
            f"{base} answered {kind}, which is not the external metrics API; "
            "give the adapter's own address, without a path"
        )
    return document


def _parse_url(text: str) -> str:
    expected = "expected a URL such as http://127.0.0.1:8080"
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as error:
        raise BadServerUrl(f"{expected} ({error})") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadServerUrl(expected)
    if url.query or url.fragment:
        raise BadServerUrl(f"{expected}, without ? and #")
    return str(url).rstrip("/")


def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _LIMIT_BYTES:
            return b""
    return bytes(body)


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
