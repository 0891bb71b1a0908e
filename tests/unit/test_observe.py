"""Self-metrics: what happened is in the exposition, under names and label values from closed sets."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapter.domain.rules import Configuration
from adapter.errors import BackendUnavailable, DeadlineExceeded, Reason
from adapter.observe import UNKNOWN, ObservedBackend, SelfMetrics
from tests.support.serving import NOW_S, ManualClock, ScriptedBackend, asynchronous, rule, vector

Labels = dict[str, str]


class Scrape:
    """The samples of one exposition."""

    def __init__(self, metrics: SelfMetrics) -> None:
        text, self.content_type = metrics.render()
        self.families = list(text_string_to_metric_families(text.decode()))
        self.samples = [sample for family in self.families for sample in family.samples]

    def get(self, name: str, **labels: str) -> float | None:
        """Return the value of one series, None if there is none."""
        found = [sample.value for sample in self.samples if (sample.name, sample.labels) == (name, labels)]
        return found[0] if found else None

    def find_labels(self, name: str, label: str) -> set[str]:
        """Return the values of one label."""
        return {sample.labels[label] for sample in self.samples if sample.name == name}


def build(*names: str, clock: ManualClock | None = None) -> SelfMetrics:
    """Return the metrics of a process with rules of these names."""
    metrics = SelfMetrics(clock or ManualClock())
    metrics.note_loaded(Configuration(backends={}, rules={name.lower(): rule("q", name) for name in names}))
    return metrics


def test_request_is_counted_by_metric_and_reason_and_timed() -> None:
    """Under the rule's own spelling, whatever the request's was."""
    metrics = build("JobsQueued")
    metrics.note_request("jobsqueued", "OK", 0.004)
    metrics.note_request("JOBSQUEUED", Reason.STALE, 0.3)
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_requests_total", metric="JobsQueued", reason="OK") == 1
    assert scrape.get("depthgauge_requests_total", metric="JobsQueued", reason="Stale") == 1
    assert scrape.get("depthgauge_request_seconds_count", metric="JobsQueued") == 2
    assert scrape.get("depthgauge_request_seconds_sum", metric="JobsQueued") == pytest.approx(0.304)
    assert scrape.get("depthgauge_request_seconds_bucket", metric="JobsQueued", le="0.005") == 1


def test_names_that_are_no_rules_share_one_label_value() -> None:
    """Nobody fills the memory by asking for names; other paths are not counted."""
    metrics = build("depth")
    for number in range(1000):
        metrics.note_request(f"guess-{number}", Reason.UNKNOWN_METRIC, 0.001)
    metrics.note_request("", "OK", 0.001)
    scrape = Scrape(metrics)
    assert scrape.find_labels("depthgauge_requests_total", "metric") == {UNKNOWN}
    assert scrape.get("depthgauge_requests_total", metric=UNKNOWN, reason="UnknownMetric") == 1000


def test_requests_in_flight_are_shown() -> None:
    """As many as there are now."""
    metrics = build()
    metrics.watch_in_flight(lambda: 3)
    assert Scrape(metrics).get("depthgauge_requests_in_flight") == 3


@pytest.mark.parametrize(
    ("outcome", "label"),
    [
        pytest.param(vector(({}, "5")), "OK", id="ok"),
        pytest.param(BackendUnavailable("no"), "BackendUnavailable", id="unavailable"),
        pytest.param(DeadlineExceeded(deadline_s=5.0), "DeadlineExceeded", id="late"),
        pytest.param(ZeroDivisionError(), "Cancelled", id="fault"),
    ],
)
@asynchronous
async def test_query_is_counted_by_backend_and_outcome_and_timed(outcome: object, label: str) -> None:
    """Our Reason, or OK; the answer and the error go through unchanged."""
    metrics = build()
    backend = ObservedBackend(ScriptedBackend(outcome), metrics)  # type: ignore[arg-type]
    assert backend.name == "default"
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome)):
            await backend.query("q", time_s=NOW_S, timeout_s=5.0)
    else:
        assert await backend.query("q", time_s=NOW_S, timeout_s=5.0) == outcome
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_backend_queries_total", backend="default", outcome=label) == 1
    assert scrape.get("depthgauge_backend_query_seconds_count", backend="default") == 1


def test_o7_evaluation_shows_last_success_age_and_series() -> None:
    """O7: the age is that of the moment somebody looks; a failure leaves the last success as it was."""
    clock = ManualClock()
    metrics = build("depth", clock=clock)
    assert Scrape(metrics).get("depthgauge_rule_series", metric="depth") is None
    metrics.note_evaluation("depth", tick_s=NOW_S - 2, series=7)
    clock.advance(40)
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_rule_last_success_timestamp_seconds", metric="depth") == NOW_S - 2
    assert scrape.get("depthgauge_rule_tick_age_seconds", metric="depth") == 42
    assert scrape.get("depthgauge_rule_series", metric="depth") == 7


def test_o1_reloads_are_counted_and_the_last_failure_shows_until_it_is_mended() -> None:
    """O1: an alert can be put on a configuration that was not taken."""
    metrics = build("depth")
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_config_reloads_total", outcome="ok") == 1
    assert scrape.get("depthgauge_config_last_reload_failed") == 0
    assert scrape.get("depthgauge_config_rules") == 1
    metrics.note_load_failed()
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_config_reloads_total", outcome="failed") == 1
    assert scrape.get("depthgauge_config_last_reload_failed") == 1
    metrics.note_loaded(Configuration(backends={}, rules={}))
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_config_last_reload_failed") == 0
    assert scrape.get("depthgauge_config_rules") == 0


def test_reviews_are_counted_by_kind_and_source() -> None:
    """Whether the cluster was asked or memory."""
    metrics = build()
    metrics.note_review("access", is_hit=False)
    metrics.note_review("access", is_hit=True)
    metrics.note_review("token", is_hit=True)
    scrape = Scrape(metrics)
    assert scrape.get("depthgauge_reviews_total", kind="access", source="cluster") == 1
    assert scrape.get("depthgauge_reviews_total", kind="access", source="memory") == 1
    assert scrape.get("depthgauge_reviews_total", kind="token", source="memory") == 1


def test_vanished_rules_series_go_and_the_others_stay() -> None:
    """A rule that was taken out is no longer spoken of; one that stays keeps its counters."""
    metrics = build("old", "kept")
    for name in ("old", "kept"):
        metrics.note_request(name, "OK", 0.001)
        metrics.note_evaluation(name, tick_s=NOW_S, series=1)
    metrics.note_loaded(Configuration(backends={}, rules={"kept": rule("q", "kept"), "new": rule("q", "new")}))
    metrics.note_request("old", Reason.UNKNOWN_METRIC, 0.001)
    scrape = Scrape(metrics)
    assert not [sample for sample in scrape.samples if sample.labels.get("metric") == "old"]
    assert scrape.get("depthgauge_requests_total", metric="kept", reason="OK") == 1
    assert scrape.get("depthgauge_rule_series", metric="kept") == 1


def test_names_are_depthgauges_and_every_family_is_described() -> None:
    """One prefix, base units, a help text and a type each; counters end in _total."""
    metrics = build("depth")
    metrics.note_request("depth", "OK", 0.1)
    metrics.note_query("default", "OK", 0.1)
    metrics.note_evaluation("depth", tick_s=NOW_S, series=1)
    metrics.note_review("access", is_hit=True)
    text = metrics.render()[0].decode()
    names = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    assert names
    for name in names:
        assert re.fullmatch(r"depthgauge_[a-z_]+", name)
        assert f"# HELP {name} " in text
    counters = set(re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE))
    assert all(name.endswith("_total") for name in counters)


def test_content_type_is_one_that_prometheus_knows() -> None:
    """The text format with its version."""
    assert Scrape(build()).content_type.startswith("text/plain; version=")
