"""OpenAPI documents as kube-apiserver merges them: small, and with no definition that another server has too.

Source: kube-aggregator pkg/controllers/openapi and openapiv3, which fetch them from every aggregated server.
"""

from functools import cache
from importlib.metadata import version
from typing import Any

from adapter.server.aggregated import Document, build_etag
from adapter.server.wire import GROUP, GROUP_VERSION, VERSION, encode_json

V3_PATH = f"/openapi/v3/apis/{GROUP_VERSION}"

_JSON = "application/json"
_PREFIX = "io.k8s.metrics.pkg.apis.external_metrics.v1beta1."
_VALUE = f"{_PREFIX}ExternalMetricValue"
_LIST = f"{_PREFIX}ExternalMetricValueList"
_KIND = {"group": GROUP, "version": VERSION, "kind": "ExternalMetricValueList"}
_PATH = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/{{metric}}"
_SUMMARY = "read the values of an external metric"
_SELECTOR_HELP = "A selector to restrict the items by their labels. Defaults to everything."


@cache
def build_openapi_v2() -> Document:
    """Return `/openapi/v2`."""
    selector = {"name": "labelSelector", "in": "query", "type": "string", "description": _SELECTOR_HELP}
    segments = [
        {"name": name, "in": "path", "type": "string", "required": True, "description": text}
        for name, text in _SEGMENTS.items()
    ]
    operation = {
        "description": _SUMMARY,
        "operationId": "listExternalMetricsV1beta1NamespacedMetric",
        "produces": [_JSON],
        "schemes": ["https"],
        "tags": ["externalMetrics_v1beta1"],
        "responses": {"200": {"description": "OK", "schema": {"$ref": f"#/definitions/{_LIST}"}}},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": _KIND,
    }
    return _build(
        {
            "swagger": "2.0",
            "info": _build_info(),
            "paths": {_PATH: {"get": operation, "parameters": [*segments, selector]}},
            "definitions": _build_schemas("#/definitions/"),
        }
    )


@cache
def build_openapi_v3() -> Document:
    """Return the one document below `/openapi/v3`."""
    selector = {
        "name": "labelSelector",
        "in": "query",
        "schema": {"type": "string"},
        "description": _SELECTOR_HELP,
    }
    segments = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": text}
        for name, text in _SEGMENTS.items()
    ]
    content = {_JSON: {"schema": {"$ref": f"#/components/schemas/{_LIST}"}}}
    operation = {
        "description": _SUMMARY,
        "operationId": "listExternalMetricsV1beta1NamespacedMetric",
        "tags": ["externalMetrics_v1beta1"],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": _KIND,
    }
    return _build(
        {
            "openapi": "3.0.0",
            "info": _build_info(),
            "paths": {_PATH: {"get": operation, "parameters": [*segments, selector]}},
            "components": {"schemas": _build_schemas("#/components/schemas/")},
        }
    )


@cache
def build_openapi_v3_root() -> Document:
    """Return `/openapi/v3`: where the one document is, with a hash that changes with it."""
    digest = build_openapi_v3().etag.strip('"')
    return _build({"paths": {f"apis/{GROUP_VERSION}": {"serverRelativeURL": f"{V3_PATH}?hash={digest}"}}})


def _build(document: dict[str, Any]) -> Document:
    body = encode_json(document)
    return Document(body, _JSON, build_etag(body))


def _build_info() -> dict[str, str]:
    return {"title": "depthgauge", "version": version("depthgauge")}


def _build_schemas(root: str) -> dict[str, Any]:
    value = {
        "description": "One value of an external metric.",
        "type": "object",
        "required": ["metricName", "metricLabels", "timestamp", "value"],
        "properties": {
            "metricName": {"type": "string", "description": "The name of the metric."},
            "metricLabels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The labels of the time series.",
            },
            "timestamp": {"type": "string", "format": "date-time", "description": "When the value was true."},
            "value": {"type": "string", "description": "The value, a Kubernetes Quantity."},
        },
    }
    values = {
        "description": "The values of an external metric.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": {"$ref": f"{root}{_VALUE}"}},
        },
        "x-kubernetes-group-version-kind": [_KIND],
    }
    return {_VALUE: value, _LIST: values}


_SEGMENTS = {
    "namespace": "The namespace that asks.",
    "metric": "The name of the metric, in any case.",
}
