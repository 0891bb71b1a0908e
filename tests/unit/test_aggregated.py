"""Aggregated discovery and OpenAPI: which document each client gets, and that each is one."""

import hashlib
import json
from typing import Any

import pytest
from jsonschema import Draft4Validator

from adapter.server.aggregated import build_aggregated, find_discovery_version
from adapter.server.openapi import V3_PATH, build_openapi_v2, build_openapi_v3, build_openapi_v3_root
from tests.support.asgi import Reply, call

KIND = "as=APIGroupDiscoveryList;g=apidiscovery.k8s.io"
V2 = f"application/json;v=v2;{KIND}"
V2BETA1 = f"application/json;v=v2beta1;{KIND}"
JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        pytest.param(f"{V2},{V2BETA1},{JSON}", "v2", id="aggregator"),
        pytest.param(f"{V2BETA1},{V2},{JSON}", "v2beta1", id="older-client"),
        pytest.param(f"{JSON},{V2}", None, id="plain-first"),
        pytest.param("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "v2", id="other-order"),
        pytest.param("application/json ; g=apidiscovery.k8s.io ; v=v2 ; as=APIGroupDiscoveryList", "v2", id="blanks"),
        pytest.param(f"application/vnd.kubernetes.protobuf;v=v2;{KIND},{V2},{JSON}", "v2", id="protobuf-first"),
        pytest.param(f"application/vnd.kubernetes.protobuf;v=v2;{KIND}", None, id="protobuf-only"),
        pytest.param(f"application/json;v=v3;{KIND},{V2BETA1}", "v2beta1", id="unknown-version-first"),
        pytest.param(f"application/json;v=v3;{KIND}", None, id="unknown-version-only"),
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", None, id="D10-table"),
        pytest.param("application/json;v=v2;as=APIGroupDiscoveryList;g=other", None, id="other-group"),
        pytest.param("*/*", None, id="anything"),
        pytest.param(JSON, None, id="plain"),
        pytest.param("", None, id="none"),
        pytest.param(";;,,=", None, id="broken"),
    ],
)
def test_d4_first_entry_of_accept_that_is_known_decides(accept: str, version: str | None) -> None:
    """D4: old and new aggregators and kubectl each get what they ask for first, and plain JSON else; never 406."""
    assert find_discovery_version(accept) == version
    reply = call("/apis", headers=((b"accept", accept.encode()),))
    assert reply.code == 200
    if version is None:
        assert reply.headers[b"content-type"] == b"application/json"
        assert reply.document["kind"] == "APIGroupList"
    else:
        media_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        assert reply.headers[b"content-type"] == media_type.encode()
        assert reply.document["apiVersion"] == f"apidiscovery.k8s.io/{version}"


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_d4_every_resource_has_its_response_kind(version: str) -> None:
    """D4: a missing responseKind crashed clients; the rest is as kube-aggregator wants it."""
    document = json.loads(build_aggregated(["b", "a"], version).body)
    (group,) = document["items"]
    assert group["metadata"]["name"] == "external.metrics.k8s.io"
    (served,) = group["versions"]
    assert (served["version"], served["freshness"]) == ("v1beta1", "Current")
    kind = {"group": "external.metrics.k8s.io", "version": "v1beta1", "kind": "ExternalMetricValueList"}
    assert [resource["resource"] for resource in served["resources"]] == ["b", "a"]
    for resource in served["resources"]:
        assert resource["responseKind"] == kind
        assert (resource["scope"], resource["verbs"]) == ("Namespaced", ["get"])


@pytest.mark.parametrize("accept", [V2, V2BETA1])
def test_d1_aggregated_list_is_never_empty(accept: str) -> None:
    """D1: without a rule there is one entry still."""
    reply = call("/apis", headers=((b"accept", accept.encode()),), names=list)
    assert len(reply.document["items"][0]["versions"][0]["resources"]) == 1


def ask(path: str, *, etag: bytes = b"", accept: str = V2, names: list[str] | None = None) -> Reply:
    """Return the answer to a client that has a document with *etag*."""
    headers = [(b"accept", accept.encode())]
    if etag:
        headers.append((b"if-none-match", etag))
    return call(path, headers=tuple(headers), names=lambda: names or ["depth"])


@pytest.mark.parametrize(
    "path", ["/apis", "/apis/external.metrics.k8s.io", "/openapi/v2", "/openapi/v3", V3_PATH, "/version"]
)
def test_unchanged_document_is_not_sent_again(path: str) -> None:
    """304 without a body to who has it already; the ETag is strong, quoted, and of the body."""
    reply = ask(path)
    etag = reply.headers[b"etag"]
    assert etag == f'"{hashlib.sha512(reply.body).hexdigest().upper()}"'.encode()
    assert reply.headers[b"vary"] == b"Accept"
    assert reply.headers[b"cache-control"] == b"public"
    for held in (etag, b'"x", ' + etag):
        again = ask(path, etag=held)
        assert (again.code, again.body) == (304, b"")
        assert again.headers[b"etag"] == etag
        assert again.headers[b"vary"] == b"Accept"
    assert ask(path, etag=b'"x"').body == reply.body
    assert ask(path, etag=etag.strip(b'"')).code == 200


def test_d4_changed_rules_and_other_versions_have_other_etags() -> None:
    """A client that has one document is not told that it has another."""
    etags = {
        ask("/apis").headers[b"etag"],
        ask("/apis", names=["depth", "more"]).headers[b"etag"],
        ask("/apis", accept=V2BETA1).headers[b"etag"],
        ask("/apis", accept=JSON).headers[b"etag"],
    }
    assert len(etags) == 4
    assert ask("/apis", etag=ask("/apis", accept=V2BETA1).headers[b"etag"]).code == 200


# What of OpenAPI 2.0's own schema (http://swagger.io/v2/schema.json) our document makes use of, written anew.
SWAGGER: dict[str, Any] = {
    "type": "object",
    "required": ["swagger", "info", "paths"],
    "additionalProperties": False,
    "properties": {
        "swagger": {"enum": ["2.0"]},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "properties": {"title": {"type": "string"}, "version": {"type": "string"}},
        },
        "paths": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "patternProperties": {
                "^/": {
                    "type": "object",
                    "properties": {
                        "get": {
                            "type": "object",
                            "required": ["responses", "operationId"],
                            "properties": {
                                "responses": {
                                    "type": "object",
                                    "minProperties": 1,
                                    "additionalProperties": {"type": "object", "required": ["description"]},
                                },
                                "schemes": {"type": "array", "items": {"enum": ["http", "https"]}},
                            },
                        },
                        "parameters": {
                            "type": "array",
                            "items": {"type": "object", "required": ["name", "in", "type"]},
                        },
                    },
                }
            },
        },
        "definitions": {"type": "object", "additionalProperties": {"type": "object"}},
    },
}


def find_references(document: Any) -> list[str]:
    """Return every `$ref` in *document*."""
    if isinstance(document, dict):
        own = [document["$ref"]] if "$ref" in document else []
        return own + [found for value in document.values() for found in find_references(value)]
    return [found for entry in document for found in find_references(entry)] if isinstance(document, list) else []


def resolve(document: Any, reference: str) -> Any:
    """Return what *reference* points to."""
    for step in reference.removeprefix("#/").split("/"):
        document = document[step]
    return document


def test_d5_openapi_v2_is_a_swagger_document_of_our_one_path() -> None:
    """D5: what kube-apiserver merges; not the web framework's own."""
    document = json.loads(build_openapi_v2().body)
    Draft4Validator(SWAGGER).validate(document)
    assert list(document["paths"]) == ["/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}"]
    assert find_references(document)
    for reference in find_references(document):
        assert resolve(document, reference)["type"] == "object"
    for schema in document["definitions"].values():
        Draft4Validator.check_schema(schema)
    assert call("/openapi/v2").document == document


def test_d5_openapi_v3_has_a_root_that_leads_to_our_document() -> None:
    """D5: the root names the document by a hash that changes with it; the document describes our one path."""
    root = json.loads(build_openapi_v3_root().body)
    ((group_version, entry),) = root["paths"].items()
    assert group_version == "apis/external.metrics.k8s.io/v1beta1"
    path, _, digest = entry["serverRelativeURL"].partition("?hash=")
    assert digest == build_openapi_v3().etag.strip('"')
    reply = call(entry["serverRelativeURL"])
    document = reply.document
    assert document == json.loads(build_openapi_v3().body)
    assert path == V3_PATH
    assert document["openapi"].startswith("3.0")
    assert {"title", "version"} <= document["info"].keys()
    assert list(document["paths"]) == ["/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}"]
    assert find_references(document)
    for reference in find_references(document):
        assert resolve(document, reference)["type"] == "object"


def test_d5_definitions_are_ours_alone() -> None:
    """Kube-apiserver merges definitions of all servers: none of ours may shadow another's."""
    for definitions in (
        json.loads(build_openapi_v2().body)["definitions"],
        json.loads(build_openapi_v3().body)["components"]["schemas"],
    ):
        assert all(name.startswith("io.k8s.metrics.pkg.apis.external_metrics.v1beta1.") for name in definitions)


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/docs/oauth2-redirect"])
def test_d5_frameworks_own_documents_are_not_served(path: str) -> None:
    """D5: nobody is told of FastAPI's view."""
    assert call(path).code == 404
