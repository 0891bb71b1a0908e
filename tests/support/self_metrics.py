"""What an adapter says of itself, as numbers."""

from collections import Counter
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.support.secure_adapter import SecureAdapter

Requests = Mapping[tuple[str, str], int]
"""How many requests were answered, by the metric asked for and our Reason (`OK` for a value)."""


def count_requests(adapter: SecureAdapter) -> Counter[tuple[str, str]]:
    """Return the requests that *adapter* has answered since its start.

    Raises: httpx.TransportError when its operations port does not answer.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for family in text_string_to_metric_families(adapter.get_ops("/metrics").text):
        for sample in family.samples:
            if sample.name == "depthgauge_requests_total":
                counts[sample.labels["metric"], sample.labels["reason"]] += int(sample.value)
    return counts
