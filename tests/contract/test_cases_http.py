"""Reported faults that take more than one question to show, over HTTP, each test named after its row."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.adapter import API, AdapterServer
from tests.support.fake_prometheus import HANG, FakePrometheus, page, vector
from tests.support.stand import check_status

SEVEN = vector([({}, "7")])


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """A backend with one number."""
    with FakePrometheus() as backend:
        backend.set("depth", SEVEN)
        yield backend


def build_config(fake: FakePrometheus, *, resolution: str = "1s", **rules: str) -> dict[str, Any]:
    """Return a configuration with the rule `depth` and further *rules*."""
    queries = {"depth": "depth", **rules}
    return {
        "prometheus": {"url": fake.url, "timeout": "1s"},
        "resolution": resolution,
        "metrics": [{"name": name, "query": query} for name, query in queries.items()],
    }


def test_b6_backend_that_says_503_is_asked_again_at_the_next_tick(fake: FakePrometheus) -> None:
    """A 503 is that tick's answer and no longer: the number is back without a restart or a touched HPA."""
    fake.set("depth", page(503, "no healthy upstream"), page(503, "no healthy upstream"), SEVEN)
    with AdapterServer(build_config(fake)) as adapter:
        check_status(adapter.ask("depth"), "BackendUnavailable", 503)
        assert adapter.wait_for(lambda reply: reply.code == 200, "depth").values == ["7"]
        assert fake.count("depth") == 3


def test_b8_slow_backend_is_given_up_at_the_deadline(fake: FakePrometheus) -> None:
    """A query that takes too long is a 504 at the deadline, which was sent along, and the backend sees it given up."""
    fake.set("slow", HANG)
    with AdapterServer(build_config(fake, slow="slow")) as adapter:
        reply = adapter.ask("slow")
        check_status(reply, "DeadlineExceeded", 504)
        assert "within 1s" in reply.message
        assert 0.9 <= reply.took_s <= 3.0
        fake.wait_for_abandoned(1)
        asked = next(request for request in fake.requests if request.query == "slow")
        assert 900 <= int(asked.fields["timeout"].removesuffix("ms")) <= 1000


def test_q1_a_thousand_questions_are_answered_while_one_rule_hangs(fake: FakePrometheus) -> None:
    """There is no global lock: while one question waits out its deadline, a thousand others are answered."""
    fake.set("slow", HANG)
    config = build_config(fake, slow="slow", resolution="60s")
    config["prometheus"]["timeout"] = "30s"
    with AdapterServer(config) as adapter, ThreadPoolExecutor(1) as asking:
        assert adapter.ask("depth").values == ["7"]
        waiting = asking.submit(adapter.ask, "slow")
        fake.wait_for_requests(1, promql="slow")
        assert [adapter.ask("depth").values for _ in range(1000)] == [["7"]] * 1000
        assert not waiting.done()
        assert fake.count("depth") <= 2, "one query a tick, however many ask"
        fake.stop()
        check_status(waiting.result(), "BackendUnavailable", 503)


def test_q2_a_herd_is_one_query(fake: FakePrometheus) -> None:
    """Two hundred callers who ask within one tick cause one query, and get the same number and time (H5)."""
    with AdapterServer(build_config(fake, resolution="60s")) as adapter:
        with fake.gate, ThreadPoolExecutor(40) as herd:
            replies = [herd.submit(adapter.ask, "depth") for _ in range(200)]
            fake.wait_for_requests(1, promql="depth")
            fake.gate.open()
            documents = [reply.result().document for reply in replies]
        asked_at = {request.fields["time"] for request in fake.requests if request.query == "depth"}
        assert fake.count("depth") == len(asked_at) <= 2, "the herd may straddle a tick"
        assert len({document["items"][0]["timestamp"] for document in documents}) == len(asked_at)
        assert {document["items"][0]["value"] for document in documents} == {"7"}


def test_q3_one_invalid_rule_disables_no_other(fake: FakePrometheus) -> None:
    """Of twenty rules one has a query that the backend refuses: nineteen numbers, one error."""
    rules = {f"good-{index}": f"depth + 0 * {index}" for index in range(19)}
    for query in rules.values():
        fake.set(query, SEVEN)
    with AdapterServer(build_config(fake, bad="sum(", **rules)) as adapter:
        assert [adapter.ask(name).values for name in rules] == [["7"]] * 19
        check_status(adapter.ask("bad"), "BadQuery", 500)


def test_ns2_resources_are_always_namespaced(fake: FakePrometheus) -> None:
    """The API is namespaced whatever a rule's own policy is, and no metric is missing from the list."""
    with AdapterServer(build_config(fake, other="other")) as adapter:
        resources = adapter.get(API).document["resources"]
        assert {(resource["name"], resource["namespaced"]) for resource in resources} == {
            ("depth", True),
            ("other", True),
        }


@pytest.mark.parametrize("name", ["job:queue_depth:sum", "job%3Aqueue_depth%3Asum", "JOB:queue_depth:SUM"])
def test_m3_colons_and_escapes_name_the_same_metric(fake: FakePrometheus, name: str) -> None:
    """A recording rule's name is a metric's name, with its colons plain or escaped."""
    with AdapterServer(build_config(fake, **{"job:queue_depth:sum": "depth"})) as adapter:
        assert adapter.get(f"{API}/namespaces/default/{name}").values == ["7"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", f"{API}/namespaces/n/depth/x", 404, id="M9-too-long"),
        pytest.param("GET", f"{API}/depth", 404, id="M9-no-namespace"),
        pytest.param("POST", f"{API}/namespaces/n/depth", 405, id="M9-post"),
        pytest.param("GET", f"{API}/namespaces/n/depth?watch=true", 405, id="M9-watch"),
    ],
)
def test_m9_wrong_paths_and_verbs_are_refused(fake: FakePrometheus, method: str, path: str, code: int) -> None:
    """What is not a read of a metric is refused as Kubernetes refuses it, with a Status."""
    with AdapterServer(build_config(fake)) as adapter:
        reply = adapter.get(path, method=method)
        assert (reply.code, reply.document["kind"], reply.document["code"]) == (code, "Status", code)


def test_overloaded_backend_turns_questions_away(fake: FakePrometheus) -> None:
    """With one place taken and its waiting room full, the next question is refused at once and not held."""
    rules = {f"r{index}": f"hang{index}" for index in range(6)}
    config = build_config(fake, **rules)
    config["prometheus"] |= {"maxConcurrency": 1, "timeout": "10s"}
    for query in rules.values():
        fake.set(query, HANG)
    with AdapterServer(config) as adapter, ThreadPoolExecutor(5) as asking:
        waiting = [asking.submit(adapter.ask, f"r{index}") for index in range(5)]
        fake.wait_for_requests(1)
        reply = adapter.wait_for(lambda reply: reply.reason == "Overloaded", "r5", timeout_s=4)
        check_status(reply, "Overloaded", 503)
        fake.stop()
        assert {reply.result().reason for reply in waiting} <= {"BackendUnavailable", "Overloaded", "DeadlineExceeded"}


def test_h2_one_metric_missing_is_its_own_error(fake: FakePrometheus) -> None:
    """Of two metrics of one HPA one is missing: a 404 with its reason, while the other's number is served.

    What the HPA makes of it (no scale-down, scale-up allowed) is shown on a real control plane.
    """
    fake.set("gone", vector([]))
    with AdapterServer(build_config(fake, gone="gone")) as adapter:
        check_status(adapter.ask("gone"), "NoSamples", 404)
        assert adapter.ask("depth").values == ["7"]
