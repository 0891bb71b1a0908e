"""The adapter in front of one backend, and of that backend's failures, for the contract's cases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.adapter import AdapterServer, Reply
from tests.support.contract_cases import CASES, Case, build_rules

TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Stand:
    """*kind* names the backend: `fake`, `prometheus2`, `prometheus3`, `victoria`."""

    kind: str
    adapter: AdapterServer

    def ask(self, case: Case) -> Reply:
        """Return the adapter's answer to the question of *case*."""
        return self.adapter.ask(case.asked or case.metric, selector=case.selector, namespace=case.namespace)


def build_config(
    url: str, *, cases: tuple[Case, ...] = CASES, backends: Mapping[str, Any] | None = None, **backend: Any
) -> dict[str, Any]:
    """Return a configuration with the rules of *cases* on the backend at *url*, and a rule `ask-NAME` for each other.

    *backend* are further keys of the default backend.
    """
    others = dict(backends or {})
    asking = [{"name": f"ask-{name}", "query": "sum(m1)", "backend": name} for name in others]
    return {
        "prometheus": {"url": url, **backend},
        "backends": others,
        "resolution": "1s",
        "metrics": [*build_rules(cases), *asking],
    }


def check_reply(reply: Reply, case: Case) -> None:
    """Assert that *reply* is the one that *case* promises, number or Status, to the letter of the contract."""
    assert reply.code == case.code, reply.document
    assert reply.headers["content-type"] == "application/json"
    if case.reason:
        check_status(reply, case.reason, case.code)
        assert f'metric "{case.asked or case.metric}"' in reply.message
        for fragment in case.says:
            assert fragment in reply.message
        return
    assert reply.document["kind"] == "ExternalMetricValueList"
    assert reply.document["apiVersion"] == "external.metrics.k8s.io/v1beta1"
    assert reply.values == list(case.values)
    assert {item["metricName"] for item in reply.document["items"]} == {case.asked or case.metric}
    if case.labels is not None:
        for item, labels in zip(reply.document["items"], case.labels, strict=True):
            assert labels.items() <= item["metricLabels"].items()  # a real scrape adds job and instance
            assert bool(labels) == bool(item["metricLabels"])
    assert all("__name__" not in item["metricLabels"] for item in reply.document["items"])


def check_status(reply: Reply, reason: str, code: int) -> None:
    """Assert that *reply* is a v1 Status with our *reason*, in at most 1 KiB, and that it asks for no retry."""
    assert reply.code == code, reply.document
    status = reply.document
    assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", code)
    assert reply.reason == reason, status
    assert status["details"]["causes"][0]["message"] == status["message"]
    assert len(status["message"].encode()) <= 1024
    assert "items" not in status
    assert "retry-after" not in reply.headers
