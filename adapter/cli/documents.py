"""The API's JSON documents, read by people: a table of items, or a sentence that says why there is none."""

from collections.abc import Iterator, Mapping
from typing import Any

from adapter.cli.terminal import format_columns


def is_value_list(document: Mapping[str, Any]) -> bool:
    """Return whether *document* is an ExternalMetricValueList, and not a Status."""
    return document.get("kind") == "ExternalMetricValueList"


def list_values(document: Mapping[str, Any]) -> list[str]:
    """Return the values of a value list's items, as Kubernetes quantities."""
    return [item["value"] for item in document["items"]]


def format_items(document: Mapping[str, Any]) -> str:
    """Return the items of a value list as a table of labels, value and timestamp."""
    return format_columns([("LABELS", "VALUE", "TIMESTAMP"), *_list_rows(document)])


def format_failure(document: Mapping[str, Any]) -> str:
    """Return what a Status says, our Reason and its HTTP code: `metric "q": ... (NoSamples, 404)`."""
    causes = (document.get("details") or {}).get("causes") or [{}]
    reason = causes[0].get("reason") or document.get("reason") or "no reason given"
    return f"{document.get('message') or 'no message given'} ({reason}, {document.get('code')})"


def _list_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for item in document["items"]:
        labels = item.get("metricLabels") or {}
        text = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        yield text or "-", item["value"], item["timestamp"]
