"""The cluster's API server: whom to believe, whose token it is, who may do what. The only user of `kubernetes`.

The client library takes most of a second to import, so it is imported when a cluster is connected to, not before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter.domain.identity import AccessDecision, AccessQuestion, AuthenticationSettings, User
from adapter.errors import Forbidden, Unauthenticated, clip_text

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

AUTHENTICATION_NAMESPACE = "kube-system"
AUTHENTICATION_CONFIGMAP = "extension-apiserver-authentication"
READER_ROLE = "extension-apiserver-authentication-reader"
_WHERE = f"ConfigMap {AUTHENTICATION_NAMESPACE}/{AUTHENTICATION_CONFIGMAP}"

_REQUEST_TIMEOUT_S = 10.0
_WATCH_S = 30
_RETRY_AFTER_S = 2.0

_log = logging.getLogger(__name__)


class ClusterUnavailable(Exception):
    """The cluster cannot be asked for what the server needs at start; the message says what to do."""


class Cluster:
    """A connection to one cluster. Make it with `connect_cluster`, close it with `aclose`."""

    def __init__(self, client: ApiClient) -> None:
        from kubernetes.aio import client as api  # noqa: PLC0415 - see the module's docstring

        self._client = client
        self._core = api.CoreV1Api(client)
        self._authentication = api.AuthenticationV1Api(client)
        self._authorization = api.AuthorizationV1Api(client)

    async def read_authentication_settings(self) -> AuthenticationSettings:
        """Return whom the API server lets speak for others.

        Raises: ClusterUnavailable with the command that grants the right to read it.
        """
        try:
            configmap = await self._core.read_namespaced_config_map(
                AUTHENTICATION_CONFIGMAP, AUTHENTICATION_NAMESPACE, _request_timeout=_REQUEST_TIMEOUT_S
            )
        except Exception as error:
            raise ClusterUnavailable(_explain_unreadable(error)) from error
        try:
            return parse_authentication_settings(configmap.data or {})
        except ValueError as error:
            raise ClusterUnavailable(f"{_WHERE} cannot be understood: {clip_text(str(error))}") from error

    async def watch_authentication_settings(self, on_settings: Callable[[AuthenticationSettings], None]) -> None:
        """Call *on_settings* with the settings now and after every change, for ever.

        Every watch begins with a fresh read and ends after half a minute, so a lost event is made good by then; while
        the API server is away the last settings stay.
        """
        from kubernetes.aio import watch  # noqa: PLC0415 - see the module's docstring

        complaint = ""
        while True:
            began_s = time.monotonic()
            try:
                on_settings(await self.read_authentication_settings())
                complaint = ""
                async with watch.Watch() as events:
                    async for event in events.stream(
                        self._core.list_namespaced_config_map,
                        AUTHENTICATION_NAMESPACE,
                        field_selector=f"metadata.name={AUTHENTICATION_CONFIGMAP}",
                        timeout_seconds=_WATCH_S,
                        _request_timeout=_WATCH_S + _REQUEST_TIMEOUT_S,
                    ):
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            on_settings(parse_authentication_settings(event["object"].data or {}))
                if time.monotonic() - began_s < _RETRY_AFTER_S:  # something between us ends watches at once
                    await asyncio.sleep(_RETRY_AFTER_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, the last settings stay and it is tried again
                if str(error) != complaint:
                    complaint = str(error)
                    _log.warning("authentication_settings_unread kept=previous %s", clip_text(complaint))
                await asyncio.sleep(_RETRY_AFTER_S)

    async def review_token(self, token: str) -> User | None:
        """Return the user of a bearer token, None if the cluster does not accept it.

        Raises: Unauthenticated if the cluster cannot be asked.
        """
        from kubernetes.aio import client as api  # noqa: PLC0415 - see the module's docstring

        review = api.V1TokenReview(spec=api.V1TokenReviewSpec(token=token))
        try:
            answer = await self._authentication.create_token_review(review, _request_timeout=_REQUEST_TIMEOUT_S)
        except Exception as error:
            raise Unauthenticated(detail=f"the cluster cannot review the token: {_brief(error)}") from error
        status = answer.status
        if status is None or not status.authenticated or status.user is None:
            return None
        user = status.user
        extra = tuple(sorted((key.lower(), tuple(values)) for key, values in (user.extra or {}).items()))
        return User(name=user.username or "", uid=user.uid or "", groups=tuple(user.groups or ()), extra=extra)

    async def review_access(self, user: User, question: AccessQuestion) -> AccessDecision:
        """Return the cluster's decision.

        Raises: Forbidden if the cluster cannot be asked.
        """
        from kubernetes.aio import client as api  # noqa: PLC0415 - see the module's docstring

        spec = api.V1SubjectAccessReviewSpec(
            user=user.name,
            uid=user.uid or None,
            groups=list(user.groups),
            extra={key: list(values) for key, values in user.extra} or None,
        )
        if question.path:
            spec.non_resource_attributes = api.V1NonResourceAttributes(path=question.path, verb=question.verb)
        else:
            spec.resource_attributes = api.V1ResourceAttributes(
                verb=question.verb,
                group=question.group,
                version=question.version,
                resource=question.resource,
                namespace=question.namespace,
                name=question.name or None,
            )
        review = api.V1SubjectAccessReview(spec=spec)
        try:
            answer = await self._authorization.create_subject_access_review(review, _request_timeout=_REQUEST_TIMEOUT_S)
        except Exception as error:
            raise Forbidden(action="", detail=f"the cluster cannot review the access: {_brief(error)}") from error
        status = answer.status
        if status is None:
            return AccessDecision(is_allowed=False, reason="the cluster's answer has no status")
        return AccessDecision(
            bool(status.allowed) and not status.denied, status.reason or status.evaluation_error or ""
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


async def connect_cluster(kubeconfig: Path | None) -> Cluster:
    """Return the cluster of *kubeconfig*, or the one that this pod runs in.

    Raises: ClusterUnavailable if neither can be read. Nothing is asked of the cluster yet.
    """
    from kubernetes.aio import client as api  # noqa: PLC0415 - see the module's docstring
    from kubernetes.aio import config  # noqa: PLC0415

    settings = api.Configuration()
    settings.client_session_kwargs = {"trust_env": False}
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(str(kubeconfig), client_configuration=settings, persist_config=False)
        return Cluster(api.ApiClient(configuration=settings))
    except Exception as error:  # whatever such a file holds, and the files that it names
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster configuration"
        hint = "" if kubeconfig else "; outside a cluster, give --kubeconfig FILE"
        raise ClusterUnavailable(f"cannot read the {where}: {clip_text(str(error))}{hint}") from error


def parse_authentication_settings(texts: Mapping[str, str]) -> AuthenticationSettings:
    """Return the settings in the ConfigMap's *texts*; what is missing has the API server's defaults.

    Raises: ValueError if a list in it is not a JSON array of strings (or null, which is how Go writes an empty one).
    """

    def read_list(key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        text = texts.get(key, "")
        return tuple(entry.lower() for entry in _parse_strings(key, text)) if text.strip() else default

    defaults = AuthenticationSettings()
    names = _parse_strings("requestheader-allowed-names", texts.get("requestheader-allowed-names", "").strip() or "[]")
    return AuthenticationSettings(
        requestheader_ca_pem=texts.get("requestheader-client-ca-file", "").encode(),
        client_ca_pem=texts.get("client-ca-file", "").encode(),
        allowed_names=frozenset(names),
        username_headers=read_list("requestheader-username-headers", defaults.username_headers),
        uid_headers=read_list("requestheader-uid-headers", defaults.uid_headers),
        group_headers=read_list("requestheader-group-headers", defaults.group_headers),
        extra_header_prefixes=read_list("requestheader-extra-headers-prefix", defaults.extra_header_prefixes),
    )


def _parse_strings(key: str, text: str) -> list[str]:
    entries: Any = json.loads(text)
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError(f"{key} is not a list of strings: {text}")
    return entries


def _explain_unreadable(error: Exception) -> str:
    what = f"cannot read {_WHERE}: {_brief(error)}"
    if getattr(error, "status", None) not in {401, 403}:
        return what
    return (
        f"{what}\nIt says whom the API server lets speak for users. Grant the right to read it with:\n"
        f"  kubectl create rolebinding -n {AUTHENTICATION_NAMESPACE} depthgauge-auth-reader "
        f"--role={READER_ROLE} --serviceaccount=NAMESPACE:SERVICEACCOUNT"
    )


def _brief(error: Exception) -> str:
    """Return what went wrong, in the API server's own words where there are any."""
    body = getattr(error, "body", None)
    if isinstance(body, str | bytes):
        try:
            return clip_text(str(json.loads(body)["message"]))
        except (ValueError, KeyError, TypeError):
            return clip_text(f"{getattr(error, 'status', '')} {getattr(error, 'reason', '')}")
    return clip_text(f"{type(error).__name__}: {error}")
