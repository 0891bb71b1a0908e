"""Aggregated discovery: one document for the whole group, in the versions that Kubernetes clients ask for.

Source: k8s.io/api apidiscovery/v2 and v2beta1; kube-aggregator's handler_discovery.go polls it every minute.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adapter.server.wire import GROUP, VERSION, encode_json

_KIND = "APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Document:
    """A body with its content type and its ETag (quoted)."""

    body: bytes
    content_type: str
    etag: str


def find_discovery_version(accept: str) -> str | None:
    """Return the version of aggregated discovery that an Accept header asks for first, None if it wants plain JSON.

    Only an entry that names group, kind and a version known here counts; the order decides, as in Kubernetes.
    """
    for entry in accept.split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media_type not in {"application/json", "*/*", "application/*"}:
            continue
        if "as" not in options:
            return None
        if options.get("g") == "apidiscovery.k8s.io" and options["as"] == _KIND and options.get("v") in _VERSIONS:
            return options["v"]
    return None


def build_aggregated(resources: Iterable[str], version: str) -> Document:
    """Return the list for *resources* in *version* (`v2` or `v2beta1`)."""
    group_version_kind = {"group": GROUP, "version": VERSION, "kind": "ExternalMetricValueList"}
    document: dict[str, Any] = {
        "kind": _KIND,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": GROUP, "creationTimestamp": None},
                "versions": [
                    {
                        "version": VERSION,
                        "freshness": "Current",
                        "resources": [
                            {
                                "resource": name,
                                "responseKind": group_version_kind,
                                "scope": "Namespaced",
                                "singularResource": "",
                                "verbs": ["get"],
                            }
                            for name in resources
                        ],
                    }
                ],
            }
        ],
    }
    body = encode_json(document)
    content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as={_KIND}"
    return Document(body, content_type, build_etag(body))


def build_etag(body: bytes) -> str:
    """Return a strong ETag of *body*: its SHA-512 in hexadecimal, quoted."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


_VERSIONS = frozenset({"v2", "v2beta1"})
