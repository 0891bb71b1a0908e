"""What clients ask before they ask for a metric: answered from memory, whatever the backends do.

An APIService that fails here blocks the deletion of every namespace of the cluster.
"""

from collections.abc import Iterable
from typing import Any

from adapter.server.wire import GROUP, GROUP_VERSION, VERSION

PLACEHOLDER_RESOURCE = "externalmetrics"
"""Listed where no rule is configured: clients take an empty list for a broken server."""


def build_group_list() -> dict[str, Any]:
    """Return the APIGroupList of `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_build_group()]}


def build_group() -> dict[str, Any]:
    """Return the APIGroup of `/apis/GROUP`."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_build_group()}


def build_resource_list(metrics: Iterable[str]) -> dict[str, Any]:
    """Return the APIResourceList of `/apis/GROUP/VERSION`: one resource for each metric."""
    names = sorted(metrics) or [PLACEHOLDER_RESOURCE]
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
            for name in names
        ],
    }


def _build_group() -> dict[str, Any]:
    version = {"groupVersion": GROUP_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}
