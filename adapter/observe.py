"""Self-metrics: what the adapter says about itself. The only user of prometheus_client.

Names are `depthgauge_<noun>_<unit>[_total]`; label values come from closed sets or from the configuration.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from adapter.clock import Clock
from adapter.domain.derivability import find_underived
from adapter.domain.rules import Configuration
from adapter.domain.samples import QueryResult
from adapter.errors import MetricError
from adapter.serving.ports import Backend

UNKNOWN = "(unknown)"
"""The metric label where the request names no rule."""

_REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_QUERY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class SelfMetrics:
    """The self-metrics of one process."""

    def __init__(self, clock: Clock) -> None:
        self._registry = CollectorRegistry()
        self._names: dict[str, str] = {}
        # One child for each set of label values, kept: looking it up costs more than counting.
        self._counting: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._counting_reviews: dict[tuple[str, bool], Counter] = {}
        self._requests = self._counter("requests", "Requests answered.", "metric", "reason")
        self._request_seconds = self._histogram("request_seconds", "Time to answer.", _REQUEST_BUCKETS_S, "metric")
        self._in_flight = self._gauge("requests_in_flight", "Requests being answered.")
        self._queries = self._counter("backend_queries", "Queries sent.", "backend", "outcome")
        self._query_seconds = self._histogram("backend_query_seconds", "Time of a query.", _QUERY_BUCKETS_S, "backend")
        self._reloads = self._counter("config_reloads", "Loads of the configuration.", "outcome")
        self._reload_failed = self._gauge("config_last_reload_failed", "Whether the last load failed: 1 if so.")
        self._rules_loaded = self._gauge("config_rules", "Rules in force.")
        self._held = self._counter("held_answers", "Answers held while the backend is away.", "metric")
        self._underived = self._gauge("guard_underived", "Guards that do nothing for a rule.", "metric", "guard")
        self._reviews = self._counter("reviews", "Access and token reviews.", "kind", "source")
        self._evaluations = _Evaluations(clock)
        self._registry.register(self._evaluations)

    def render(self) -> tuple[bytes, str]:
        """Return the exposition text and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def note_loaded(self, configuration: Configuration) -> None:
        """Take a configuration that is in force now; what the metrics of vanished rules said is dropped."""
        names = {key: rule.name for key, rule in configuration.rules.items()}
        for gone in set(self._names.values()) - set(names.values()):
            self._evaluations.forget(gone)
            self._request_seconds.remove_by_labels({"metric": gone})
            self._requests.remove_by_labels({"metric": gone})
            self._held.remove_by_labels({"metric": gone})
        self._names = names
        self._underived.clear()
        for rule in configuration.rules.values():
            for guard in find_underived(rule):
                self._underived.labels(rule.name, guard).set(1)
        self._counting.clear()
        self._rules_loaded.set(len(names))
        self._reloads.labels("ok").inc()
        self._reload_failed.set(0)

    def note_load_failed(self) -> None:
        """Take that a configuration could not be used."""
        self._reloads.labels("failed").inc()
        self._reload_failed.set(1)

    def watch_in_flight(self, count: Callable[[], int]) -> None:
        """Take who knows how many requests are being answered; asked when somebody scrapes."""
        self._in_flight.set_function(count)

    def note_request(self, metric: str, reason: str, took_s: float) -> None:
        """Take one answer about *metric*, empty for other paths, which are not counted."""
        if not metric:
            return
        name = self._names.get(metric.lower(), UNKNOWN)
        counting = self._counting.get((name, reason))
        if counting is None:
            counting = self._requests.labels(name, reason), self._request_seconds.labels(name)
            self._counting[name, reason] = counting
        requests, request_seconds = counting
        requests.inc()
        request_seconds.observe(took_s)

    def note_query(self, backend: str, outcome: str, took_s: float) -> None:
        """Take one query: `OK` or our Reason, and its seconds."""
        self._queries.labels(backend, outcome).inc()
        self._query_seconds.labels(backend).observe(took_s)

    def note_evaluation(self, rule: str, *, tick_s: float, series: int) -> None:
        """Take that *rule* has a usable result of so many *series* at *tick_s* (Unix seconds)."""
        self._evaluations.note(rule, tick_s, series)

    def note_held(self, rule: str) -> None:
        """Take that a request about *rule* got the last good answer, because the backend is away."""
        self._held.labels(rule).inc()

    def note_review(self, kind: str, *, is_hit: bool) -> None:
        """Take one question to the cluster: `access` or `token`, answered from memory or not."""
        reviews = self._counting_reviews.get((kind, is_hit))
        if reviews is None:
            reviews = self._counting_reviews[kind, is_hit] = self._reviews.labels(
                kind, "memory" if is_hit else "cluster"
            )
        reviews.inc()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"depthgauge_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"depthgauge_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(f"depthgauge_{name}", text, labels, buckets=tuple(buckets), registry=self._registry)


class _Evaluations(Collector):
    """What is known of each rule's last good evaluation; ages are computed when somebody scrapes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}

    def note(self, rule: str, tick_s: float, series: int) -> None:
        self._last[rule] = (tick_s, series)

    def forget(self, rule: str) -> None:
        self._last.pop(rule, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families."""
        families = (
            ("rule_last_success_timestamp_seconds", "The last tick with a usable result.", lambda tick_s, _: tick_s),
            (
                "rule_tick_age_seconds",
                "How long ago that tick was.",
                lambda tick_s, _: max(0.0, self._clock.now_s() - tick_s),
            ),
            ("rule_series", "Series of the last usable result.", lambda _, series: series),
        )
        for name, text, read in families:
            family = GaugeMetricFamily(f"depthgauge_{name}", text, labels=("metric",))
            for rule, (tick_s, series) in sorted(self._last.items()):
                family.add_metric((rule,), read(tick_s, series))
            yield family


class ObservedBackend:
    """A backend whose queries are counted."""

    def __init__(self, backend: Backend, metrics: SelfMetrics) -> None:
        self._backend = backend
        self._metrics = metrics

    @property
    def name(self) -> str:
        """Return the backend's name in the configuration."""
        return self._backend.name

    async def query(self, promql: str, *, time_s: float, timeout_s: float) -> QueryResult:
        """Return the backend's answer; see `Backend.query`."""
        began_s = time.perf_counter()
        outcome = "Cancelled"
        try:
            result = await self._backend.query(promql, time_s=time_s, timeout_s=timeout_s)
            outcome = "OK"
        except MetricError as error:
            outcome = error.reason
            raise
        else:
            return result
        finally:
            self._metrics.note_query(self.name, outcome, time.perf_counter() - began_s)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._backend.aclose()
