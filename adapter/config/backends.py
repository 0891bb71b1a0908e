"""One backend's keys become its settings."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic import TypeAdapter

from adapter.config.durations import parse_duration_s
from adapter.config.places import Place
from adapter.config.problems import Kind, Note, Problem
from adapter.config.schema import BackendKeys, TlsKeys
from adapter.config.validation import validate_piece
from adapter.domain.backends import BackendSettings, BasicAuth, TlsSettings

DEFAULT_BACKEND: Final = "default"
"""The name of the backend under `prometheus`, and of the one that a rule asks unless it says otherwise."""

_BACKEND: Final = TypeAdapter(BackendKeys)
_NO_TLS: Final = TlsKeys.build_default()


def read_backend(name: str, value: object, place: Place) -> tuple[BackendSettings | None, list[Problem], list[Note]]:
    """Return the settings that *value* at *place* says (None if it cannot be used), its problems, and notes."""
    problems = list(_find_conflicts(value, place)) if isinstance(value, dict) else []
    keys = validate_piece(_BACKEND, value, place.path, place.document)
    if isinstance(keys, list):
        return None, problems + keys, []
    return _build_settings(name, keys, place), problems, list(_list_notes(keys, place))


def _find_conflicts(value: dict[str, Any], place: Place) -> Iterator[Problem]:
    """Yield what cannot stand together; the values are not checked yet."""
    credentials = [key for key in ("bearerTokenFile", "basicAuth") if value.get(key) is not None]
    if len(credentials) > 1:
        yield place.problem(Kind.INVALID, "not together with bearerTokenFile: keep one", below=("basicAuth",))
    headers = value.get("headers")
    seen: dict[str, str] = {}
    for header in headers if isinstance(headers, dict) else ():
        below = ("headers", header)
        if header.lower() in seen:
            yield place.problem(Kind.DUPLICATE, f"the same header as {seen[header.lower()]}", below=below)
        seen.setdefault(header.lower(), header)
        if header.lower() == "authorization" and credentials:
            yield place.problem(Kind.INVALID, f"not together with {credentials[0]}: keep one", below=below)
    tls = value.get("tls")
    if not isinstance(tls, dict):
        return
    if tls.get("insecureSkipVerify") is True and tls.get("caFile") is not None:
        detail = "not together with caFile: a certificate is either checked or not"
        yield place.problem(Kind.INVALID, detail, True, below=("tls", "insecureSkipVerify"))
    if tls.get("keyFile") is not None and tls.get("certFile") is None:
        yield place.problem(
            Kind.REQUIRED, "keyFile needs the certificate that it belongs to", below=("tls", "certFile")
        )


def _list_notes(keys: BackendKeys, place: Place) -> Iterator[Note]:
    if keys.tls is not None and keys.url.lower().startswith("http:"):
        yield place.note("the URL is plain http, so nothing under tls is used", below=("tls",))


def _build_settings(name: str, keys: BackendKeys, place: Place) -> BackendSettings:
    tls, basic, folder = keys.tls or _NO_TLS, keys.basic_auth, place.folder
    return BackendSettings(
        name=name,
        url=keys.url.rstrip("/"),
        timeout_s=parse_duration_s(keys.timeout),
        max_concurrency=keys.max_concurrency,
        bearer_token_file=folder / keys.bearer_token_file if keys.bearer_token_file else None,
        basic_auth=BasicAuth(basic.username, folder / basic.password_file) if basic else None,
        tls=TlsSettings(
            ca_file=folder / tls.ca_file if tls.ca_file else None,
            cert_file=folder / tls.cert_file if tls.cert_file else None,
            key_file=folder / tls.key_file if tls.key_file else None,
            server_name=tls.server_name,
            insecure_skip_verify=tls.insecure_skip_verify,
        ),
        headers=keys.headers,
        params=keys.params,
    )
