"""What clients ask before they ask for a metric: answered from memory, whatever the backends do.

An APIService that fails here blocks the deletion of every namespace of the cluster.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from adapter.server.aggregated import Document, build_aggregated, build_etag, find_discovery_version
from adapter.server.openapi import V3_PATH, build_openapi_v2, build_openapi_v3, build_openapi_v3_root
from adapter.server.wire import GROUP, GROUP_VERSION, VERSION, encode_json

PLACEHOLDER_RESOURCE = "externalmetrics"
"""Listed where no rule is configured: clients take an empty list for a broken server."""


def add_discovery(app: FastAPI, list_metrics: Callable[[], list[str]]) -> None:
    """Add discovery, OpenAPI and the version to *app*; *list_metrics* gives the names to show."""

    def add(path: str, build: Callable[[Request], Document]) -> None:
        async def answer(request: Request) -> Response:
            return _build_answer(request, build(request))

        app.add_api_route(path, answer, methods=["GET"])
        app.add_api_route(f"{path}/", answer, methods=["GET"])

    def build_root(request: Request) -> Document:
        wanted = find_discovery_version(request.headers.get("accept", ""))
        if wanted is None:
            return _build_document(build_group_list())
        return build_aggregated(list_resources(list_metrics()), wanted)

    add("/apis", build_root)
    add(f"/apis/{GROUP}", lambda _: _build_document(build_group()))
    add(f"/apis/{GROUP_VERSION}", lambda _: _build_document(build_resource_list(list_metrics())))
    add("/openapi/v2", lambda _: build_openapi_v2())
    add("/openapi/v3", lambda _: build_openapi_v3_root())
    add(V3_PATH, lambda _: build_openapi_v3())
    add("/version", lambda _: _build_document(build_version()))


def list_resources(metrics: Iterable[str]) -> list[str]:
    """Return the resources that discovery shows for *metrics*, in order; never none."""
    return sorted(metrics) or [PLACEHOLDER_RESOURCE]


def build_version() -> dict[str, Any]:
    """Return `/version`, in the shape of apimachinery's version.Info."""
    number = version("depthgauge")
    major, minor = number.split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": f"v{number}"}


def build_group_list() -> dict[str, Any]:
    """Return the APIGroupList of `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_build_group()]}


def build_group() -> dict[str, Any]:
    """Return the APIGroup of `/apis/GROUP`."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_build_group()}


def build_resource_list(metrics: Iterable[str]) -> dict[str, Any]:
    """Return the APIResourceList of `/apis/GROUP/VERSION`: one resource for each metric."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [
            {
                "name": name,
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
            for name in list_resources(metrics)
        ],
    }


def _build_group() -> dict[str, Any]:
    version = {"groupVersion": GROUP_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def _build_document(document: Any) -> Document:  # noqa: ANN401 - any JSON document
    body = encode_json(document)
    return Document(body, "application/json", build_etag(body))


def _build_answer(request: Request, document: Document) -> Response:
    headers = {"ETag": document.etag, "Vary": "Accept", "Cache-Control": "public", "X-Content-Type-Options": "nosniff"}
    if document.etag in {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(document.body, headers={**headers, "Content-Type": document.content_type})
